//! Every recorded stream, whole and in pieces; what goes out; what is learnt from refusals.
use super::*;
use crate::model::recorded;
use crate::settings::llm::Format;

fn endpoint() -> Endpoint {
    recorded::endpoint(Format::AnthropicMessages)
}

#[test]
fn every_recorded_stream_is_understood_however_it_is_cut() {
    let recorded = recorded::of_format("anthropic");
    assert!(recorded.len() >= 13, "the recorded streams are missing");
    recorded.iter().for_each(|each| each.check_however_cut(&Anthropic::new(&endpoint())));
}

#[test]
fn what_came_back_goes_out_as_recorded() {
    let recorded = recorded::of_format("anthropic");
    recorded.iter().for_each(|each| each.check_round_trip(&Anthropic::new(&endpoint())));
}
