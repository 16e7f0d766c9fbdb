//! Which addresses a host has.
use std::net::IpAddr;
use ureq::config::Config;
use ureq::http::Uri;
// Not under semver: Cargo.toml pins the minor version.
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;
use ureq::unversioned::transport::time::Duration;

/// Has the system resolve names, each on a thread of its own, which is what ureq needs to keep to a limit. An address,
/// as of most local models, needs none.
#[derive(Debug, Default)]
pub(super) struct Names(DefaultResolver);

impl Resolver for Names {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        mut limit: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        if host.parse::<IpAddr>().is_ok() {
            limit.after = Duration::NotHappening;
        }
        self.0.resolve(uri, config, limit)
    }
}
