//! The index: which sessions are listed, found by their beginning, and deleted.
use super::*;

#[test]
fn a_session_is_deleted_wherever_it_is() {
    let house = House::new();
    house.saved("a", &["q"]);
    house.saved("b", &["q"]);
    house.index().delete(&id("a")).unwrap();
    house.index().delete(&id("a")).unwrap();
    house.index().delete(&id("never-was")).unwrap();
    assert_eq!(house.names(), [".gitignore", "b.json"]);
    assert_eq!(house.listed(), ["b"]);
    assert!(matches!(house.open("a"), Err(LoadError::Unknown)));
    fs::remove_dir_all(house.cwd()).unwrap();
    house.index().delete(&id("b")).unwrap();
}

#[test]
fn only_what_the_index_names_is_listed() {
    let house = House::new();
    house.write("foreign", whole().to_string());
    house.saved("own", &["q"]);
    assert_eq!(house.listed(), ["own"]);
    assert_eq!(house.index().newest(&house.cwd()), Some(id("own")));
    assert_eq!(house.place().find("for"), Ok(id("foreign")), "the user names it himself");
}

#[test]
fn an_index_with_broken_lines_gives_the_rest() {
    let house = House::new();
    house.saved("a", &["q"]);
    let index = house.root.join("user/sessions.jsonl");
    assert_eq!((mode(&index), mode(index.parent().unwrap())), (0o600, 0o700));
    let cwd = house.cwd().to_str().unwrap().to_owned();
    let line = |id: &str, file: &str| json!({"id": id, "cwd": cwd, "file": file}).to_string();
    let mut text = fs::read_to_string(&index).unwrap();
    for bad in [
        "",
        "{}",
        "\u{0}\u{0}",
        "[1,2,3]",
        &line("../a", ".bob/sessions/../a.json"),
        &line("x", ".bob/sessions/a.json"),
        &line("y", "/etc/y.json"),
        &line("z", "../project/.bob/sessions/z.json"),
        "{\"id\": \"torn",
    ] {
        text += bad;
        text += "\n";
    }
    write(&index, text.trim_end().as_bytes());
    house.saved("b", &["q"]);
    let mut listed = house.listed();
    listed.sort();
    assert_eq!(listed, ["a", "b"]);
}

#[test]
fn of_a_huge_index_the_end_counts() {
    let house = House::new();
    ["a", "b"].iter().for_each(|name| house.saved(name, &["q"]));
    let index = house.root.join("user/sessions.jsonl");
    let huge = [vec![b'x'; 64 << 20], b"\n".to_vec(), fs::read(&index).unwrap()].concat();
    write(&index, &huge);
    house.index().delete(&id("b")).unwrap();
    assert_eq!(house.names(), [".gitignore", "a.json"]);
    assert_eq!(house.listed(), ["a"]);
}

#[test]
fn without_the_index_nothing_is_said_to_be_deleted() {
    let house = House::new();
    house.saved("a", &["q"]);
    let index = house.root.join("user/sessions.jsonl");
    fs::remove_file(&index).unwrap();
    fs::create_dir(&index).unwrap();
    assert!(matches!(house.index().delete(&id("a")), Err(DeleteError::Failed(_))));
    assert_eq!(house.listed(), [] as [&str; 0]);
    assert!(house.file("a").exists());
}

#[test]
fn a_long_index_loses_what_says_nothing_any_more() {
    let house = House::new();
    ["a", "b", "gone"].iter().for_each(|name| house.saved(name, &["q"]));
    (0..5).for_each(|_| drop(house.open("b").unwrap()));
    fs::remove_file(house.file("gone")).unwrap();
    let index = house.root.join("user/sessions.jsonl");
    let count = || fs::read_to_string(&index).unwrap().lines().count();
    house.index().tidy(8).unwrap();
    assert_eq!(count(), 8, "it is not long");
    house.index().tidy(7).unwrap();
    assert_eq!(count(), 2);
    assert_eq!(mode(&index), 0o600);
    house.saved("c", &["q"]);
    house.index().tidy(0).unwrap();
    assert_eq!(count(), 3, "most of it still says something");
    let mut listed = house.listed();
    listed.sort();
    assert_eq!(listed, ["a", "b", "c"]);
}

#[test]
fn writers_of_the_index_do_not_lose_each_others_lines() {
    let house = House::new();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let house = &house;
            scope.spawn(move || {
                for n in 0..50 {
                    let name = format!("w{writer}-{n}");
                    house.index().add(&id(&name), &house.cwd(), format!("{name}.json").as_ref()).unwrap();
                }
            });
        }
    });
    let text = fs::read_to_string(house.root.join("user/sessions.jsonl")).unwrap();
    assert_eq!(text.lines().filter(|line| serde_json::from_str::<Value>(line).is_ok()).count(), 200);
}

#[test]
fn a_prefix_names_one_session_or_none() {
    let house = House::new();
    assert!(house.place().find("a").is_err());
    ["ab-1", "ab-12", "c"].iter().for_each(|name| house.saved(name, &["q"]));
    write(&house.folder().join("b c.json"), b"");
    for (beginning, found) in [
        ("ab-1", Some("ab-1")),
        ("ab-12", Some("ab-12")),
        ("ab", None),
        ("c", Some("c")),
        ("b", None),
        ("d", None),
        ("../sessions/c", None),
    ] {
        assert_eq!(house.place().find(beginning).ok(), found.map(id), "{beginning}");
    }
}

/// `count` sessions, alternating between two projects, each a second newer than the one before.
fn many(house: &House, count: usize) {
    for n in 0..count {
        let cwd = house.root.join(["even", "odd"][n % 2]);
        fs::create_dir_all(cwd.join(".bob/sessions")).unwrap();
        let mut file = whole();
        let updated = SystemTime::UNIX_EPOCH + Duration::from_secs(1_796_000_000 + n as u64);
        file["updatedAt"] = json!(time(updated));
        file["title"] = json!(format!("n{n}"));
        let name = format!(".bob/sessions/s{n}.json");
        write(&cwd.join(&name), file.to_string().as_bytes());
        house.index().add(&id(&format!("s{n}")), &cwd, name.as_ref()).unwrap();
    }
}

/// The ids of all pages; `between` happens after each.
fn walk(index: &Index, cwd: Option<&Path>, mut between: impl FnMut(usize)) -> Vec<usize> {
    let (mut found, mut cursor, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = index.list(cwd, cursor.as_deref()).unwrap();
        assert!(page.sessions.len() <= PAGE);
        for session in page.sessions {
            assert!(session.title.is_some() && Path::new(&session.cwd).is_absolute());
            found.push(session.session_id.as_str().trim_start_matches('s').parse().unwrap());
        }
        between(pages);
        pages += 1;
        cursor = page.next_cursor;
        if cursor.is_none() {
            return found;
        }
    }
}

const PAGE: usize = 50;

#[test]
fn a_thousand_sessions_are_listed_newest_first_each_once() {
    let house = House::new();
    many(&house, 1000);
    let index = house.index();
    assert_eq!(walk(&index, None, |_| {}), (0..1000).rev().collect::<Vec<_>>());
    let odd = house.root.join("odd");
    let odds: Vec<_> = (0..1000).rev().filter(|n| n % 2 == 1).collect();
    assert_eq!(walk(&index, Some(&odd), |_| {}), odds);
    symlink(&odd, house.root.join("link")).unwrap();
    assert_eq!(walk(&index, Some(&house.root.join("link/.")), |_| {}), odds);
    assert!(walk(&index, Some(&house.root.join("none")), |_| {}).is_empty());
    assert_eq!(index.newest(&odd), Some(id("s999")));
    assert_eq!(index.newest(&house.root), None);
}

#[test]
fn a_cursor_holds_while_sessions_come_and_go() {
    let house = House::new();
    many(&house, 200);
    let index = house.index();
    let found = walk(&index, None, |page| {
        if page == 0 {
            // The last of the first page, one that comes next, and a new one in front.
            index.delete(&id("s150")).unwrap();
            index.delete(&id("s149")).unwrap();
            house.saved("s1000", &["q"]);
        }
    });
    assert_eq!(found, (0..200).rev().filter(|n| *n != 149).collect::<Vec<_>>());
}

#[test]
fn exactly_a_page_has_no_next_one() {
    let house = House::new();
    many(&house, PAGE);
    let page = house.index().list(None, None).unwrap();
    assert_eq!((page.sessions.len(), page.next_cursor), (PAGE, None));
}

#[test]
fn a_cursor_that_no_list_gave_is_refused() {
    let house = House::new();
    for bad in ["", "x", "!", "MTIz", "LTEgYQ", "MSAuLi9h", "OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTkgYQ"]
    {
        assert_eq!(house.index().list(None, Some(bad)), Err(BadCursor), "{bad}");
    }
}

#[test]
fn a_list_reads_heads_alone() {
    let house = House::new();
    house.saved("a", &["q"]);
    let text = fs::read_to_string(house.file("a")).unwrap();
    let (head, _) = text.split_once("re: q").unwrap();
    write(&house.file("a"), head.as_bytes()); // broken behind its head
    assert_eq!(house.listed(), ["a"]);
    for (spoiled, why) in [
        (text.replace("\"version\":1", "\"version\":2"), "later"),
        (text.replace("\"version\":1", "\"version\":\"1\""), "no version"),
        (text.replace("\"updatedAt\"", "\"x\""), "no time"),
        (text.replace("\"messages\":[", "\"messages\":{"), "no list"),
        ("[1]".to_owned(), "no object"),
        (String::new(), "empty"),
        (text.replacen(':', &format!(":{}", " ".repeat(2 << 20)), 1), "a head without end"),
    ] {
        write(&house.file("a"), spoiled.as_bytes());
        assert!(house.listed().is_empty(), "{why}");
    }
}
