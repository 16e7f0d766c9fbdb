mod listing;

use super::*;
use crate::model::AssistantMessage;
use crate::session::Prompt;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::time::Duration;
use tempfile::TempDir;

/// A user with a folder of Bob's, and a project.
struct House {
    _temp: TempDir,
    root: PathBuf,
}

fn id(text: &str) -> SessionId {
    SessionId::parse(text).unwrap()
}

fn said(texts: &[&str]) -> History {
    let mut history = History::default();
    texts.iter().for_each(|text| say(&mut history, text));
    history
}

/// A turn of a question and an answer.
fn say(history: &mut History, text: &str) {
    let block = RawValue::from_string(json!({"type": "text", "text": text}).to_string()).unwrap();
    let prompt = Prompt::check([&*block]).unwrap();
    history.push_user(prompt.blocks, String::new(), prompt.parts);
    let message = AssistantMessage { text: format!("re: {text}"), ..AssistantMessage::default() };
    history.push_assistant(message, || unreachable!("it has no calls"));
}

impl House {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        fs::create_dir(root.join("project")).unwrap();
        Self { _temp: temp, root }
    }

    fn cwd(&self) -> PathBuf {
        self.root.join("project")
    }

    fn place(&self) -> Place {
        Place::new(self.cwd(), ".bob/sessions".as_ref()).unwrap()
    }

    fn index(&self) -> Index {
        Index::of_user(self.root.join("user"))
    }

    fn head(&self, name: &str) -> Head {
        Head::new(id(name), self.cwd(), "m", "ask")
    }

    fn folder(&self) -> PathBuf {
        self.cwd().join(".bob/sessions")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder().join(format!("{name}.json"))
    }

    fn create(&self, name: &str) -> Store {
        Store::create(self.place(), self.head(name), Some(self.index())).unwrap()
    }

    fn open(&self, name: &str) -> Result<(Store, History), LoadError> {
        Store::open(self.place(), self.head(name), Some(self.index()))
    }

    fn saved(&self, name: &str, texts: &[&str]) {
        let mut store = self.create(name);
        store.head.title = texts.first().and_then(|text| title_of(text));
        store.save(&said(texts));
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::create_dir_all(self.folder()).unwrap();
        write(&self.file(name), text.as_ref());
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self
            .folder()
            .read_dir()
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn listed(&self) -> Vec<String> {
        let page = self.index().list(None, None).unwrap();
        page.sessions.iter().map(|session| session.session_id.to_string()).collect()
    }
}

fn write(path: &Path, bytes: &[u8]) {
    io::Write::write_all(&mut fs::File::create(path).unwrap(), bytes).unwrap();
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o777
}

/// A saved file of one turn, to be spoiled.
fn whole() -> Value {
    json!({"version": 1, "id": "x", "cwd": "/elsewhere", "title": "T", "createdAt": "2026-12-01T10:00:00.000Z",
        "updatedAt": "2026-12-01T11:00:00.000Z", "model": "m", "mode": "full-access", "skills": ["s"],
        "messages": [{"role": "user", "blocks": [{"type": "text", "text": "a"}]}, {"role": "assistant", "text": "b"}]})
}

#[test]
fn a_new_session_is_a_file_at_once_and_private() {
    let house = House::new();
    let store = house.create("new");
    let text = fs::read_to_string(house.file("new")).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    let mut rest = text.as_str();
    for member in
        ["version", "id", "cwd", "title", "createdAt", "updatedAt", "model", "mode", "skills", "messages"]
    {
        (_, rest) = rest.split_once(&format!("\"{member}\":")).expect(member);
    }
    assert_eq!(file.as_object().unwrap().len(), 10);
    assert_eq!((file["version"].clone(), file["messages"].clone()), (json!(1), json!([])));
    assert_eq!(file["createdAt"], json!(time(store.head.created_at)));
    assert_eq!((mode(&house.file("new")), mode(&house.folder())), (0o600, 0o700));
    for folder in [house.cwd().join(".bob"), house.folder()] {
        assert_eq!(fs::read_to_string(folder.join(".gitignore")).unwrap(), "*\n");
    }
    assert!(house.listed().is_empty(), "nobody has said anything in it");
}

#[test]
fn what_is_saved_is_loaded_in_the_requests_folder() {
    let house = House::new();
    let mut store = house.create("a");
    store.head.title = Some("Hello".to_owned());
    store.head.skills = vec!["s".to_owned()];
    let mut history = said(&["Hello"]);
    store.save(&history);
    say(&mut history, "more");
    store.save(&history);
    let head = store.head.clone();
    drop(store);
    fs::rename(house.cwd(), house.root.join("moved")).unwrap();
    let place = Place::new(house.root.join("moved"), ".bob/sessions".as_ref()).unwrap();
    let (mut store, loaded) = Store::open(place, house.head("a"), Some(house.index())).unwrap();
    assert_eq!(loaded.messages(), history.messages());
    assert_eq!(loaded.transcript().bytes(), history.transcript().bytes());
    let millis = |time| humantime::format_rfc3339_millis(time).to_string();
    assert_eq!((&store.head.title, &store.head.skills), (&head.title, &head.skills));
    assert_eq!(millis(store.head.created_at), millis(head.created_at));
    assert_eq!(store.head.cwd, house.cwd(), "of the request");
    store.save(&loaded);
    assert!(!house.cwd().exists(), "a folder that is gone is not made again");
    assert_eq!(house.index().list(Some(&house.root.join("moved")), None).unwrap().sessions.len(), 1);
}

#[test]
fn each_step_is_in_the_file_and_no_other_file_is_left() {
    let house = House::new();
    let mut store = house.create("a");
    let mut history = History::default();
    for n in 0..20 {
        say(&mut history, &n.to_string());
        store.save(&history);
        let loaded = file::decode(&fs::read(house.file("a")).unwrap()).unwrap();
        assert_eq!(loaded.history.messages(), history.messages());
    }
    assert_eq!(house.names(), [".gitignore", "a.json", "a.lock"]);
    store.unsynced().unwrap().sync().unwrap();
    assert!(store.unsynced().is_none());
    drop(store);
    assert_eq!(house.names(), [".gitignore", "a.json"]);
}

#[test]
fn what_the_file_holds_is_not_written_again() {
    let house = House::new();
    let mut store = house.create("a");
    let mut history = History::default();
    say(&mut history, "q");
    store.save(&history);
    fs::remove_file(house.file("a")).unwrap();
    store.save_changes(&history);
    assert!(!house.file("a").exists());
    say(&mut history, "again");
    store.save_changes(&history);
    let loaded = file::decode(&fs::read(house.file("a")).unwrap()).unwrap();
    assert_eq!(loaded.history.messages(), history.messages());
}

#[test]
fn what_could_not_be_written_is_tried_again() {
    let house = House::new();
    let mut store = house.create("a");
    let mut history = History::default();
    say(&mut history, "q");
    fs::remove_file(house.file("a")).unwrap();
    fs::create_dir(house.file("a")).unwrap();
    store.save(&history);
    fs::remove_dir(house.file("a")).unwrap();
    store.save_changes(&history);
    assert!(house.file("a").exists());
}

#[test]
fn what_a_killed_writer_left_is_taken_away() {
    let house = House::new();
    fs::create_dir_all(house.folder()).unwrap();
    write(&house.folder().join(".a.json.tmp"), b"half");
    house.saved("a", &["q"]);
    assert_eq!(house.names(), [".gitignore", "a.json"]);
}

#[test]
fn an_id_that_is_saved_or_open_is_not_taken() {
    let house = House::new();
    let create = || Store::create(house.place(), house.head("a"), None).err();
    let store = house.create("a");
    assert_eq!(create(), Some(IdTaken::Open));
    drop(store);
    let before = fs::read(house.file("a")).unwrap();
    assert_eq!(create(), Some(IdTaken::Saved));
    assert_eq!(fs::read(house.file("a")).unwrap(), before);
    assert_eq!(house.names(), [".gitignore", "a.json"]);
}

#[test]
fn a_second_opener_is_told_so_and_a_closed_session_is_free() {
    let house = House::new();
    house.saved("a", &["q"]);
    let first = house.open("a").unwrap();
    assert!(matches!(house.open("a"), Err(LoadError::Locked)));
    assert!(matches!(house.index().delete(&id("a")), Err(DeleteError::Locked)));
    assert_eq!(house.listed(), ["a"], "looking needs no lock");
    drop(first);
    house.open("a").unwrap();
}

#[test]
fn a_lock_without_a_holder_is_none() {
    let house = House::new();
    house.saved("a", &["q"]);
    write(&house.folder().join("a.lock"), b"");
    house.open("a").unwrap();
}

#[track_caller]
fn broken(house: &House, text: impl AsRef<[u8]>, why: &str) {
    house.write("x", text.as_ref());
    match house.open("x") {
        Err(LoadError::Broken(got)) => {
            assert!(got.contains(why), "{got}");
            assert!(!got.contains("SECRET"), "{got}");
        }
        Err(other) => panic!("{other}: expected {why}"),
        Ok(_) => panic!("loaded: expected {why}"),
    }
    assert_eq!(fs::read(house.file("x")).unwrap(), text.as_ref(), "the file is as it was");
    assert!(!house.folder().join("x.lock").exists());
}

#[test]
fn broken_files_say_what_is_wrong_and_stay() {
    let house = House::new();
    let with = |key: &str, value: Value| {
        let mut file = whole();
        file[key] = value;
        file.to_string()
    };
    let without = |key: &str| {
        let mut file = whole();
        file.as_object_mut().unwrap().remove(key);
        file.to_string()
    };
    let text = whole().to_string();
    for (text, why) in [
        (String::new(), "is empty"),
        (" \n".to_owned(), "is empty"),
        (text.strip_suffix("}]}").unwrap().to_owned(), "ends in the middle"),
        ("SECRET".to_owned(), "not JSON (line 1"),
        (text.replace("},{", "},SECRET{"), "not JSON (line 1"),
        (text.clone() + "{}", "not JSON"),
        ("[]".to_owned(), "not an object"),
        ("{}".to_owned(), "no usable version"),
        (with("version", json!("1")), "no usable version"),
        (with("version", json!(0)), "no usable version"),
        (with("version", json!(-1)), "no usable version"),
        (without("messages"), "no list of messages"),
        (with("messages", json!({})), "no list of messages"),
        (with("messages", json!(null)), "no list of messages"),
        (without("createdAt"), "before the messages"),
        (with("skills", json!("SECRET")), "before the messages"),
        (with("updatedAt", json!("SECRET")), "a time that is none"),
        (with("messages", json!([{"role": "system", "text": "SECRET"}])), "messages[0] has a role"),
    ] {
        broken(&house, text, why);
    }
    broken(&house, b"\"\xff\"", "not UTF-8");
    broken(&house, vec![0; 4096], "not JSON");
    broken(&house, "[".repeat(100_000), "ends in the middle");
    let many = format!("[{}0]", r#"{"a":0},"#.repeat(4 << 20));
    broken(&house, text.replace("[\"s\"]", &many), "too many values");
}

#[test]
fn each_kind_of_trouble_has_its_own_answer() {
    let house = House::new();
    let error = |name| house.open(name).unwrap_err();
    assert!(matches!(error("a"), LoadError::Unknown), "no folder yet");
    house.saved("a", &["q"]);
    assert!(matches!(error("b"), LoadError::Unknown));
    assert_eq!(house.names(), [".gitignore", "a.json"], "no lock is left for it");
    let mut later = whole();
    later["version"] = json!(2);
    later["messages"] = json!("of a form that nobody knows yet");
    let later = later.to_string();
    house.write("later", &later);
    assert!(matches!(error("later"), LoadError::Newer(2)));
    assert_eq!(fs::read_to_string(house.file("later")).unwrap(), later);
    fs::create_dir(house.file("folder")).unwrap();
    assert!(matches!(error("folder"), LoadError::Unreadable(_)));
    rustix::fs::mkfifoat(rustix::fs::CWD, house.file("pipe"), rustix::fs::Mode::RWXU).unwrap();
    assert!(matches!(error("pipe"), LoadError::Unreadable(_)));
    let huge = fs::File::create(house.file("huge")).unwrap();
    huge.set_len(FILE_AT_MOST + 1).unwrap();
    assert!(matches!(error("huge"), LoadError::Unreadable(_)));
    let code = |error: &LoadError| serde_json::to_value(error.to_rpc(&id("a"))).unwrap();
    assert_eq!(code(&LoadError::Locked)["code"], json!(-32600));
    let unknown = code(&LoadError::Unknown);
    assert_eq!(unknown["code"], json!(-32602));
    assert_eq!(unknown["data"]["sessionId"], json!("a"));
    assert_ne!(unknown["data"]["error"], code(&LoadError::Broken("x".to_owned()))["data"]["error"]);
}

#[test]
fn a_link_at_any_component_is_neither_read_nor_written_through() {
    for (link, target) in [
        (".bob", "outside"),
        (".bob/sessions", "../../outside"),
        (".bob/sessions/x.json", "../../../outside/x.json"),
        (".bob/sessions/x.lock", "../../../outside/new"),
        (".bob/sessions/.x.json.tmp", "../../../outside/x.json"),
        (".bob/sessions/.gitignore", "../../../outside/new"),
    ] {
        let house = House::new();
        let outside = house.root.join("outside");
        fs::create_dir_all(outside.join("sessions")).unwrap();
        let text = whole().to_string();
        write(&outside.join("x.json"), text.as_bytes());
        write(&outside.join("sessions/x.json"), text.as_bytes());
        let link = house.cwd().join(link);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        let target = if target == "outside" { outside.clone() } else { target.into() };
        symlink(target, &link).unwrap();
        if link.file_name().unwrap() == "x.lock" {
            house.write("x", &text);
        }
        house.index().add(&id("x"), &house.cwd(), ".bob/sessions/x.json".as_ref()).unwrap();
        assert!(house.open("x").is_err(), "{link:?}");
        if link.file_name().unwrap() != "x.lock" {
            assert!(house.listed().is_empty(), "{link:?}");
        }
        if let Ok(mut store) = Store::create(house.place(), house.head("x"), None) {
            store.save(&said(&["q"]));
        }
        for file in ["x.json", "sessions/x.json"] {
            assert_eq!(fs::read_to_string(outside.join(file)).unwrap(), text, "{link:?}");
        }
        assert_eq!(outside.read_dir().unwrap().count(), 2, "{link:?}");
        assert_eq!(outside.join("sessions").read_dir().unwrap().count(), 1, "{link:?}");
    }
}

#[test]
fn the_session_folder_is_below_the_project() {
    for folder in ["", ".", "..", "../x", "a/../../b", "/tmp", "/"] {
        assert!(Place::new("/p".into(), folder.as_ref()).is_err(), "{folder:?}");
    }
    for folder in [".bob/sessions", "./x", "x/"] {
        assert!(Place::new("/p".into(), folder.as_ref()).is_ok(), "{folder:?}");
    }
}

#[test]
fn a_folder_that_was_cleared_is_filled_again() {
    let house = House::new();
    let mut store = house.create("a");
    fs::remove_dir_all(house.cwd().join(".bob")).unwrap();
    store.save(&said(&["q"]));
    assert_eq!(house.names(), [".gitignore", "a.json", "a.lock"]);
    assert!(matches!(house.open("a"), Err(LoadError::Locked)));
}

#[test]
fn who_lost_the_lock_with_the_folder_writes_no_more() {
    let house = House::new();
    let mut first = house.create("a");
    fs::remove_dir_all(house.cwd().join(".bob")).unwrap();
    let mut second = house.create("a");
    second.save(&said(&["second"]));
    let before = fs::read(house.file("a")).unwrap();
    first.save(&said(&["first"]));
    drop(first);
    assert_eq!(fs::read(house.file("a")).unwrap(), before);
    assert!(house.folder().join("a.lock").exists(), "and takes no lock away that is not its own");
}

#[test]
fn a_project_that_is_gone_is_not_made_again() {
    let house = House::new();
    let mut store = house.create("a");
    fs::remove_dir_all(house.cwd()).unwrap();
    store.save(&said(&["q"]));
    drop(store);
    assert!(!house.cwd().exists());
    assert!(!Store::create(house.place(), house.head("b"), None).unwrap().is_on());
    assert!(!house.cwd().exists());
    assert!(house.listed().is_empty());
}

#[test]
fn where_nothing_can_be_written_saving_is_off() {
    if rustix::process::geteuid().is_root() {
        return println!("skipped: root may write everywhere");
    }
    let house = House::new();
    fs::set_permissions(house.cwd(), fs::Permissions::from_mode(0o500)).unwrap();
    let mut store = house.create("a");
    assert!(!store.is_on());
    store.save(&said(&["q"]));
    assert_eq!(house.cwd().read_dir().unwrap().count(), 0);
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_leaves_the_last_step_whole_and_saving_goes_on_when_there_is_room() {
    use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
    struct Unmount(PathBuf);
    impl Drop for Unmount {
        fn drop(&mut self) {
            let _ = unmount(&self.0, UnmountFlags::DETACH);
        }
    }
    let house = House::new();
    if mount("tmpfs", house.cwd(), "tmpfs", MountFlags::empty(), c"size=64k").is_err() {
        return println!("skipped: no permission to mount a small disk");
    }
    let _unmount = Unmount(house.cwd());
    let mut store = house.create("a");
    let mut history = said(&["q"]);
    store.save(&history);
    let before = fs::read(house.file("a")).unwrap();
    say(&mut history, &"x".repeat(1 << 20));
    for _ in 0..3 {
        store.save(&history);
        assert_eq!(fs::read(house.file("a")).unwrap(), before);
        assert_eq!(house.names(), [".gitignore", "a.json", "a.lock"]);
    }
    assert!(store.keep_past(id("kept"), &history), "a rename needs no room");
    history.clear();
    say(&mut history, "small");
    store.save(&history);
    drop(store);
    assert_eq!(house.open("a").unwrap().1.messages(), history.messages());
    assert_eq!(house.open("kept").unwrap().1.messages(), said(&["q"]).messages());
}

#[test]
fn a_session_too_large_to_be_read_is_not_written() {
    let house = House::new();
    let mut store = house.create("a");
    store.save(&said(&["q"]));
    let before = fs::read(house.file("a")).unwrap();
    assert_eq!(store.saving.as_ref().unwrap().limit, FILE_AT_MOST);
    store.saving.as_mut().unwrap().limit = 1000;
    store.save(&said(&[&"x".repeat(500)])); // the answer repeats it
    assert_eq!(fs::read(house.file("a")).unwrap(), before);
}

#[test]
fn the_past_is_kept_under_an_id_of_its_own() {
    let house = House::new();
    let mut store = house.create("a");
    let mut history = History::default();
    assert!(!store.keep_past(id("b"), &history), "there is none");
    say(&mut history, "first");
    store.head.title = Some("first".to_owned());
    store.save(&history);
    let past = history.messages().to_vec();
    assert!(store.keep_past(id("b"), &history));
    history.clear();
    store.head.title = None;
    store.save(&history);
    let (kept, loaded) = house.open("b").unwrap();
    assert_eq!((loaded.messages(), kept.head.title.as_deref()), (past.as_slice(), Some("first")));
    assert_eq!(house.listed(), ["b"], "in the new one nothing was said yet");
    let file: Value = serde_json::from_slice(&fs::read(house.file("b")).unwrap()).unwrap();
    assert_eq!(file["id"], json!("b"));
}

#[test]
fn a_saved_session_makes_room_for_a_new_one_of_its_name() {
    let house = House::new();
    let aside = || set_aside(&house.place(), &id("script"), &id("old"), Some(&house.index()));
    assert!(!aside().unwrap());
    house.saved("script", &["q"]);
    let open = house.open("script").unwrap();
    assert_eq!(aside().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    drop(open);
    assert!(aside().unwrap());
    let _new = house.create("script");
    assert_eq!(house.open("old").unwrap().1.messages(), said(&["q"]).messages());
    assert_eq!(house.listed(), ["old"]);
    fs::remove_file(house.file("old")).unwrap();
    drop(_new);
    house.write("script", "broken");
    assert!(aside().unwrap(), "also what can't be read is not thrown away");
    assert_eq!(fs::read_to_string(house.file("old")).unwrap(), "broken");
    house.write("script", "x");
    assert_eq!(aside().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
}

#[test]
fn a_title_from_a_file_is_cleaned() {
    let house = House::new();
    let mut file = whole();
    file["title"] = json!("a\u{202e}\nb".to_owned() + &"x".repeat(99));
    house.write("x", file.to_string());
    house.index().add(&id("x"), &house.cwd(), ".bob/sessions/x.json".as_ref()).unwrap();
    let title = house.open("x").unwrap().0.head.title.unwrap();
    assert!(title.starts_with("a\\u{202e} bxxx") && title.chars().count() == 60, "{title}");
    assert_eq!(house.index().list(None, None).unwrap().sessions[0].title.as_ref(), Some(&title));
}
