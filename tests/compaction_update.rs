//! A compaction as a client sees it that declared `session.compaction`, and one that did not.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
mod support;

use serde_json::{Value, json};
use support::client::{Client, Launch, Turn};
use support::openai::{refuse, say};
use support::saved::Place;
use support::turns::talking;
use support::write_file;

/// What a client has to say of itself.
fn knowing() -> Value {
    json!({"session": {"compaction": {}}})
}

/// A place where one turn is kept, and a client with a session of two turns.
fn stage(capabilities: Value) -> (Place, Client, String) {
    let place = Place::new();
    write_file(place.user.path(), "config.json", r#"{"context": {"keepLastTurns": 1}}"#);
    let mut client = start(&place, capabilities);
    let session = client.new_session(place.cwd());
    place.prompt(&mut client, &session, &"one ".repeat(200));
    place.prompt(&mut client, &session, "two");
    (place, client, session)
}

fn start(place: &Place, capabilities: Value) -> Client {
    let mut client = place.launch(Launch::new()).start();
    client.initialize_with(capabilities);
    client
}

/// The updates of the turn's only compaction, without its id.
fn told(turn: &Turn) -> Vec<Value> {
    let mut told: Vec<_> = turn.of_kind("compaction_update").cloned().collect();
    let ids: Vec<_> = told.iter_mut().map(|update| update["compactionId"].take()).collect();
    assert!(ids.iter().all(|id| id.is_string() && *id == ids[0]), "{ids:?}");
    for update in &mut told {
        let update = update.as_object_mut().unwrap();
        update.retain(|name, _| name != "compactionId" && name != "sessionUpdate");
    }
    told
}

fn summary(text: &str) -> Value {
    json!({"status": "completed", "summary": [{"type": "text", "text": text}]})
}

#[test]
fn a_client_that_knows_sees_it_begin_and_end() {
    let (place, mut client, session) = stage(knowing());
    let begun = json!({"status": "in_progress"});
    place.model.push(refuse(400, "no such model"));
    let turn = client.prompt(&session, "/compact");
    let [first, failed] = &told(&turn)[..] else { panic!("{:?}", turn.updates) };
    assert_eq!((first, &failed["status"]), (&begun, &json!("failed")));
    assert!(failed["error"].as_str().unwrap().contains("no such model"), "{failed}");
    assert!(turn.text().contains("history kept"), "and it is told as to everybody: {}", turn.text());

    let (answer, hold) = talking([]);
    place.model.push(answer);
    let asked = place.model.requests().len();
    let prompt = client.send_prompt(&session, "/compact");
    place.model.wait_request(asked);
    client.notify("session/cancel", json!({"sessionId": session}));
    let turn = client.wait_turn(&session, &prompt);
    assert_eq!(
        (turn.stop_reason(), told(&turn)),
        ("cancelled", vec![begun.clone(), json!({"status": "cancelled"})])
    );
    drop(hold);

    place.model.push(say("SUMMARY"));
    let turn = client.prompt(&session, "/compact");
    assert_eq!(told(&turn), [begun, summary("SUMMARY")]);
    assert!(turn.text().contains("compressed 2 messages"), "{}", turn.text());
    assert!(told(&client.prompt(&session, "/compact")).is_empty(), "there is nothing to compact");
    client.finish();
}

#[test]
fn one_within_a_turn_is_told_too() {
    let (place, mut client, session) = stage(knowing());
    place.model.push(refuse(400, "prompt is too long: 210000 tokens > 200000 maximum"));
    place.model.push(say("SUMMARY"));
    let turn = place.prompt(&mut client, &session, "three");
    assert_eq!(told(&turn), [json!({"status": "in_progress"}), summary("SUMMARY")]);
    assert_eq!(turn.text(), "answer to three");
    place.finish(client);
}

#[test]
fn it_has_its_place_in_the_replay() {
    let (place, mut client, session) = stage(knowing());
    place.model.push(say("SUMMARY"));
    client.prompt(&session, "/compact");
    client.finish();
    let mut client = start(&place, knowing());
    let loaded = place.load(&mut client, &session).done();
    let two = ["user_message_chunk", "agent_message_chunk"];
    assert_eq!(
        loaded.kinds(),
        [two[0], two[1], "compaction_update", two[0], two[1], "available_commands_update"]
    );
    let told = loaded.of_kind("compaction_update")[0];
    assert_eq!((&told["status"], &told["summary"]), (&json!("completed"), &summary("SUMMARY")["summary"]));
    place.finish(client);
}

#[test]
fn a_client_that_did_not_declare_it_never_sees_one() {
    for session in
        [json!(null), json!({}), json!(true), json!({"compaction": null}), json!({"compaction": true})]
    {
        let capabilities = json!({"session": session});
        let (place, mut client, session) = stage(capabilities.clone());
        place.model.push(say("SUMMARY"));
        let turn = client.prompt(&session, "/compact");
        assert!(told(&turn).is_empty(), "{capabilities}");
        client.finish();
        let mut client = start(&place, capabilities);
        let loaded = place.load(&mut client, &session).done();
        assert_eq!(loaded.of_kind("compaction_update"), [] as [&Value; 0]);
        assert!(loaded.of_kind("agent_message_chunk").iter().any(|m| m["content"]["text"] == "🗜️ SUMMARY"));
        place.finish(client);
    }
}
