//! What whole-program tests share: a client that checks every line it gets, a scripted model server, matching.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file is a crate of its own that uses its part of this"
)]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by a panic and tells why on stderr"
)]
#![allow(clippy::needless_pass_by_value, reason = "callers write json!(…) in place")]

pub mod checker;
pub mod client;
pub mod command;
pub mod formats;
pub mod matching;
pub mod model_server;
pub mod openai;
pub mod process;
pub mod proxy;
pub mod saved;
pub mod scene;
pub mod schema;
pub mod tls;
pub mod turns;

use std::fs::{self, File};
use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long a test waits before it calls something hung. No test passes or fails by how fast anything is.
pub const HANG: Duration = Duration::from_secs(30);

/// Writes a file below `folder`, making the folders on the way.
pub fn write_file(folder: &Path, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().expect("it is below a folder")).unwrap();
    File::create(&path).unwrap().write_all(content.as_ref()).unwrap();
    path
}

/// Starts a thread whose name shows in a debugger.
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().name(name.into()).spawn(work).expect("a test may have a thread");
}

/// Listens on a free port of loopback as long as the tests run; each connection has a thread of its own.
pub fn listen(name: &'static str, serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    listen_on(TcpListener::bind("127.0.0.1:0").expect("loopback has a free port"), name, serve)
}

/// The same, there.
pub fn listen_on(
    listener: TcpListener,
    name: &'static str,
    serve: impl Fn(TcpStream) + Send + Sync + 'static,
) -> SocketAddr {
    let address = listener.local_addr().expect("it is bound");
    let serve = Arc::new(serve);
    spawn(name, move || {
        for socket in listener.incoming().map_while(Result::ok) {
            let serve = serve.clone();
            spawn(name, move || serve(socket));
        }
    });
    address
}

/// Passes on what either side says until one of them ends.
pub fn pass_on(one: TcpStream, other: TcpStream) {
    let (mut from_other, mut to_one) = (other.try_clone().unwrap(), one.try_clone().unwrap());
    spawn("pass on", move || {
        let _ = std::io::copy(&mut from_other, &mut to_one); // one of them is gone
        let _ = to_one.shutdown(Shutdown::Both);
    });
    let _ = std::io::copy(&mut &one, &mut &other); // the same
    let _ = other.shutdown(Shutdown::Both);
}
