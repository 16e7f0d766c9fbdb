pub(super) use super::anthropic::Anthropic as Responses;
