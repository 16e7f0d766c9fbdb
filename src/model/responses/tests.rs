//! Every recorded stream, whole and in pieces; what goes out; what is learnt from refusals.
use super::*;
use crate::model::recorded;
use crate::settings::llm::Format;

fn endpoint() -> Endpoint {
    recorded::endpoint(Format::OpenAiResponses)
}

#[test]
fn every_recorded_stream_is_understood_however_it_is_cut() {
    let recorded = recorded::of_format("responses");
    assert!(recorded.len() >= 12, "the recorded streams are missing");
    recorded.iter().for_each(|each| each.check_however_cut(&Responses::new(&endpoint())));
}

#[test]
fn what_came_back_goes_out_as_recorded() {
    let recorded = recorded::of_format("responses");
    recorded.iter().for_each(|each| each.check_round_trip(&Responses::new(&endpoint())));
}
