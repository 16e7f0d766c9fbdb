//! `session/list`: every session once, newest first, page by page, whatever happens in between.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
mod support;

use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use support::client::Client;
use support::saved::{Place, load_in};
use support::write_file;

const COUNT: usize = 250;

/// Two projects with sessions that other processes saved, each a second newer than the one before.
struct Shelves {
    place: Place,
}

impl Shelves {
    fn new() -> Self {
        let shelves = Self { place: Place::new() };
        let mut index = String::new();
        for n in 0..COUNT {
            shelves.save(n);
            let line = json!({"id": name(n), "cwd": shelves.cwd(n), "file": file(n)});
            writeln!(index, "{line}").unwrap();
        }
        write_file(shelves.place.user.path(), "sessions.jsonl", index);
        shelves
    }

    fn cwd(&self, n: usize) -> PathBuf {
        self.place.cwd().join(["even", "odd"][n % 2])
    }

    fn save(&self, n: usize) {
        let time = format!("2001-01-01T10:{:02}:{:02}.000Z", n / 60, n % 60);
        let text = json!({"version": 1, "id": name(n), "cwd": self.cwd(n), "title": format!("title {n}"), "createdAt": time,
            "updatedAt": time, "model": "m", "mode": "ask", "skills": []})
        .to_string();
        let message = r#"{"role":"user","blocks":[{"type":"text","text":"q"}]}"#;
        let text = format!("{},\"messages\":[{message}]}}", text.strip_suffix('}').unwrap());
        write_file(&self.cwd(n), &file(n), text);
    }
}

fn name(n: usize) -> String {
    format!("s-{n}")
}

fn file(n: usize) -> String {
    format!(".bob/sessions/{}.json", name(n))
}

/// The pages of a list, each as its numbers; `between` is done after each.
fn walk(
    client: &mut Client,
    cwd: Option<&Path>,
    mut between: impl FnMut(usize, &mut Client),
) -> Vec<Vec<usize>> {
    let (mut pages, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let page = client.call("session/list", json!({"cwd": cwd, "cursor": cursor}))["result"].take();
        let sessions = page["sessions"].as_array().unwrap_or_else(|| panic!("{page}"));
        let number = |session: &Value| {
            let n = session["sessionId"].as_str().unwrap().strip_prefix("s-").unwrap().parse().unwrap();
            assert_eq!(session["title"], format!("title {n}"));
            assert!(
                Path::new(session["cwd"].as_str().unwrap()).ends_with(["even", "odd"][n % 2]),
                "{session}"
            );
            assert!(session["updatedAt"].as_str().unwrap().starts_with("2001-01-01T10:"), "{session}");
            n
        };
        pages.push(sessions.iter().map(number).collect());
        between(pages.len(), client);
        match page.get("nextCursor") {
            Some(next) => cursor = next.clone(),
            None => return pages,
        }
    }
}

#[test]
fn each_session_is_listed_once_newest_first_in_pages_of_fifty() {
    let shelves = Shelves::new();
    let mut client = shelves.place.start(&[]);
    let pages = walk(&mut client, None, |_, _| {});
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [50; 5]);
    assert_eq!(pages.concat(), (0..COUNT).rev().collect::<Vec<_>>());
    // The filter comes before the pages.
    let odd = walk(&mut client, Some(&shelves.cwd(1)), |_, _| {});
    assert_eq!(odd.iter().map(Vec::len).collect::<Vec<_>>(), [50, 50, 25]);
    assert_eq!(odd.concat(), (0..COUNT).rev().filter(|n| n % 2 == 1).collect::<Vec<_>>());
    assert_eq!(
        walk(&mut client, Some(shelves.place.cwd()), |_, _| {}).concat(),
        [] as [usize; 0],
        "not what is below"
    );
    shelves.place.finish(client);
}

#[test]
fn files_that_come_and_go_between_pages_move_no_other() {
    let shelves = Shelves::new();
    let mut client = shelves.place.start(&[]);
    let pages = walk(&mut client, None, |page, client| match page {
        1 => {
            // The one the cursor is of, one of the next page, and one that was broken since.
            let deleted = client.call("session/delete", json!({"sessionId": name(200)}));
            assert_eq!(deleted["result"], json!({}));
            fs::remove_file(shelves.cwd(198).join(file(198))).unwrap();
            write_file(&shelves.cwd(197), &file(197), "half a f");
        }
        2 => {
            // One is back, and one that was told before goes on: it is new now, and not told twice.
            shelves.save(100);
            load_in(client, &name(240), &shelves.cwd(240)).done();
            shelves.place.prompt(client, &name(240), "go on");
        }
        3 => fs::remove_dir_all(shelves.cwd(0)).unwrap(),
        _ => {}
    });
    let told = pages.concat();
    let third = *pages[2].last().unwrap();
    let gone = |n: &usize| [198, 197].contains(n) || (*n < third && n.is_multiple_of(2));
    assert_eq!(told, (0..COUNT).rev().filter(|n| !gone(n)).collect::<Vec<_>>());
    shelves.place.finish(client);
}

#[test]
fn a_cursor_or_a_folder_that_is_none_is_refused() {
    let place = Place::new();
    let mut client = place.start(&[]);
    for (params, field) in [
        (json!({"cursor": "x"}), "cursor"),
        (json!({"cursor": ""}), "cursor"),
        (json!({"cursor": 1}), "cursor"),
        (json!({"cwd": "relative"}), "cwd"),
        (json!({"cwd": 1}), "cwd"),
    ] {
        let error = client.call("session/list", params)["error"].clone();
        assert_eq!((&error["code"], &error["data"]["field"]), (&json!(-32602), &json!(field)), "{error}");
    }
    for params in [json!({}), json!({"cwd": null, "cursor": null}), json!({"cwd": place.cwd().join("none")})]
    {
        assert_eq!(client.call("session/list", params)["result"], json!({"sessions": []}));
    }
    place.finish(client);
}
