//! Files in folders that others may fill and change while we look.
//!
//! What Bob reads by itself below a project goes through [`read_below`]. A path that a model named is resolved and
//! judged first (`tools::paths`); then [`open_resolved`] opens, or [`replace`] writes, what was judged or nothing,
//! since neither follows a link at any component.
mod below;
mod folders;
mod kind;
mod lock_file;
mod replace;
mod rotate;
mod save;

pub use below::{LINKS_AT_MOST, Links, folder, names_below, open_below, open_resolved, read_all, read_below};
pub use folders::{append_below, folder_below, ignore_all, make_folders, make_private_folder};
pub use kind::{image_type, kind_of};
pub use lock_file::{LockFile, lock, try_lock};
pub use replace::{Refused, replace};
pub use rotate::rotate;
pub use save::{Over, Unsynced, rename_new, save};
