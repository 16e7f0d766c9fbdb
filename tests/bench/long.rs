//! Rows of long conversations, and of many.
use crate::floors::write_and_rename;
use crate::peer::Peer;
use crate::rows::{NOWHERE, PROMPT_END, ms};
use crate::saved;
use crate::support::model_server::ModelServer;
use crate::support::openai::say;
use crate::table::{Row, Times};
use bob::session::history::History;
use bob::session::history::record::CallReference;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

const TURNS: usize = 1_000;
const SESSIONS: usize = 1_000;

/// One more step saved, in a new session and in one of 1,000 turns; the floor writes the same bytes to a new file and
/// renames it.
pub(crate) fn step_saved(_: &Path) -> Vec<Row> {
    let row = |name, turns| {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let mut history = saved::history(turns);
        let (mut store, id) = saved::save(folder.path(), &folder.path().join("home"), &history);
        let (file, copy) = (saved::path(folder.path(), &id), folder.path().join("copy"));
        let (floor, times) = Times::beside(
            101,
            |_| {
                let bytes = fs::read(&file).expect("it is saved");
                let since = Instant::now();
                write_and_rename(&copy, &bytes);
                since.elapsed()
            },
            |turn| {
                let since = Instant::now();
                history.push_assistant(saved::answer(turn), || CallReference::new(0));
                store.save(&history);
                since.elapsed()
            },
        );
        Row::times_floor(name, &times, &floor, 1.5)
    };
    vec![row("step saved, new session", 1), row("step saved, after 1,000 turns", TURNS)]
}

/// A whole turn without a tool, in a new session and in one of 1,000 turns; the floor sends the same request, copies the
/// answer, and saves the same file twice.
pub(crate) fn turn(bob: &Path) -> Vec<Row> {
    let server = ModelServer::start();
    let mut peer = Peer::bob(bob, &server.base_url(), &[]);
    let large = "{\"context\": {\"window\": 1000000}}"; // nothing is compacted
    fs::create_dir_all(peer.home()).expect("there is room");
    write_and_rename(&peer.home().join("config.json"), large.as_bytes());
    let new = peer.open();
    let (_, id) = saved::save(peer.folder(), &peer.home(), &saved::history(TURNS));
    peer.load(id.as_str());
    let mut measure = |session: &str| {
        let ask = |peer: &mut Peer| {
            server.push(say("Yes."));
            let since = Instant::now();
            let prompt = peer.prompt(session);
            let answer = peer.until(&prompt);
            let took = since.elapsed();
            assert!(answer.contains(PROMPT_END), "{answer}");
            took
        };
        let first = server.requests().len();
        ask(&mut peer);
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let request = folder.path().join("request");
        write_and_rename(&request, &server.wait_request(first).raw);
        let session = peer.folder().join(format!(".bob/sessions/{session}.json"));
        let floor = ["step", &server.address().to_string(), text(&request), text(&session)];
        let mut plain = Peer::floor(&floor);
        Times::beside(
            15, // the server keeps all requests
            |_| {
                server.push(say("Yes."));
                let since = Instant::now();
                plain.send("go");
                plain.until(PROMPT_END);
                since.elapsed()
            },
            |_| ask(&mut peer),
        )
    };
    let ((floor, times), (floor_of_long, long)) = (measure(&new), measure(id.as_str()));
    vec![
        Row::over_floor("turn without tools, new session", &times, &floor, ms(1)),
        Row::times_floor("turn without tools, after 1,000 turns", &long, &floor_of_long, 2.0),
    ]
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a temporary folder's name is plain")
}

/// A session of 1,000 turns loaded and told again; the floor writes the same lines.
pub(crate) fn load(bob: &Path) -> Vec<Row> {
    let mut peer = Peer::bob(bob, NOWHERE, &[]);
    peer.initialize();
    let (_, id) = saved::save(peer.folder(), &peer.home(), &saved::history(TURNS));
    let told = peer.load(id.as_str());
    peer.close(id.as_str());
    let copy = peer.folder().join("told");
    write_and_rename(&copy, told.as_bytes());
    let mut plain = Peer::floor(&["tell", text(&copy)]);
    let (floor, times) = Times::beside(
        21,
        |_| {
            let since = Instant::now();
            plain.send("go");
            plain.until(PROMPT_END);
            since.elapsed()
        },
        |_| {
            let since = Instant::now();
            peer.load(id.as_str());
            let took = since.elapsed();
            peer.close(id.as_str());
            took
        },
    );
    let megabytes = told.len() as f64 / f64::from(1 << 20);
    vec![
        Row::rate("session of 1,000 turns loaded and told", megabytes, " MB", &times, &floor, 0.03),
        Row::time("the same", &times, ms(50)),
    ]
}

/// The first page of 1,000 saved sessions, in two folders.
pub(crate) fn list(bob: &Path) -> Vec<Row> {
    let mut peer = Peer::bob(bob, NOWHERE, &[]);
    peer.initialize();
    let folders: Vec<PathBuf> = ["one", "two"].iter().map(|name| peer.folder().join(name)).collect();
    folders.iter().for_each(|folder| fs::create_dir(folder).expect("it is new"));
    let history: History = saved::history(1);
    for at in 0..SESSIONS {
        saved::save(&folders[at % 2], &peer.home(), &history);
    }
    let mut row = |name, params: serde_json::Value| {
        let times = Times::of(21, |_| {
            let since = Instant::now();
            let page = peer.ask("session/list", &params);
            assert_eq!(page["sessions"].as_array().map(Vec::len), Some(50));
            since.elapsed()
        });
        Row::time(name, &times, ms(50))
    };
    vec![
        row("session/list of 1,000 in two folders", json!({})),
        row("session/list of one of the folders", json!({"cwd": folders[0]})),
    ]
}
