//! The turn gate: one turn works at a time in the process, in the order of the numbers.
//!
//! A number counts as ready from the moment it is given, not from its worker's arrival: else the threads' race would
//! fix the order. A turn that waits for something else lends the gate and keeps its number.
use crate::cancel::{CancelToken, Cancelled};
use crossbeam_channel::{Sender, after, bounded, select};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long a turn waits before the user is told.
const TELL_AFTER: Duration = Duration::from_secs(1);

/// The gate of a process.
#[derive(Clone)]
pub struct Gate(Arc<Shared>);

struct Shared {
    parallel: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: u64,
    working: Option<u64>,
    places: BTreeMap<u64, Stand>,
}

enum Stand {
    /// Numbered, its worker is on its way: the gate is kept for it.
    Coming,
    Waiting(Sender<()>),
    Working,
    /// Waits for servers, an answer or a retry, or has been cancelled: others pass.
    Away,
}

/// One prompt's place in the order. Dropping it, also in a panic, gives back whatever it holds.
pub struct Place {
    gate: Gate,
    number: u64,
}

impl Gate {
    /// `parallel`: everybody may work at any time.
    pub fn new(parallel: bool) -> Self {
        Self(Arc::new(Shared { parallel, state: Mutex::default() }))
    }

    /// The next number. Called for an idle session when its prompt is accepted, else when what was before it ends.
    pub fn number(&self) -> Place {
        let mut state = self.0.state.lock();
        state.last += 1;
        let number = state.last;
        state.places.insert(number, Stand::Coming);
        Place { gate: self.clone(), number }
    }
}

impl State {
    /// A free gate goes to the lowest number that is not away; for one that is coming it waits.
    fn pass_on(&mut self) {
        if self.working.is_some() {
            return;
        }
        let Some((number, stand)) = self.places.iter_mut().find(|(_, stand)| !matches!(stand, Stand::Away))
        else {
            return;
        };
        if let Stand::Waiting(_granted) = std::mem::replace(stand, Stand::Coming) {
            *stand = Stand::Working;
            self.working = Some(*number); // dropping `_granted` wakes the worker
        }
    }

    fn put(&mut self, number: u64, stand: Option<Stand>) {
        if self.working == Some(number) {
            self.working = None;
        }
        match stand {
            Some(stand) => self.places.insert(number, stand),
            None => self.places.remove(&number),
        };
        self.pass_on();
    }
}

impl Place {
    /// Waits until this turn may work; `tell` is called once if that takes longer than a second.
    ///
    /// # Errors
    /// Cancelled. Then it never comes back: a cancelled turn says its last words without the gate, or they would wait
    /// for another session's turn.
    pub fn enter(&self, cancel: &CancelToken, tell: impl FnOnce()) -> Result<(), Cancelled> {
        if !self.gate.0.parallel {
            let (granted, wake) = bounded(0);
            self.put(Some(Stand::Waiting(granted)));
            let granted_soon = select! {
                recv(wake) -> _ => true,
                recv(cancel.fired()) -> _ => true,
                recv(after(TELL_AFTER)) -> _ => false,
            };
            if !granted_soon {
                tell();
                select! {
                    recv(wake) -> _ => {}
                    recv(cancel.fired()) -> _ => {}
                }
            }
        }
        // Both may have happened; the cancel wins and a grant is passed on.
        cancel.check().inspect_err(|_| self.leave())
    }

    /// Not ready: gives the gate back if it has it, keeps the number.
    pub fn leave(&self) {
        self.put(Some(Stand::Away));
    }

    /// Lends the gate while `wait` runs. Whoever comes back with a lower number goes first.
    ///
    /// # Errors
    /// Cancelled meanwhile.
    pub fn away<T>(&self, cancel: &CancelToken, wait: impl FnOnce() -> T) -> Result<T, Cancelled> {
        self.leave();
        let result = wait();
        self.enter(cancel, || {})?;
        Ok(result)
    }

    fn put(&self, stand: Option<Stand>) {
        self.gate.0.state.lock().put(self.number, stand);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.put(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cancel::CancelSource;

    fn enter(place: &Place) -> Result<(), Cancelled> {
        place.enter(&CancelSource::new().token(), || {})
    }

    #[test]
    fn the_numbers_fix_the_order_not_the_arrival() {
        for _ in 0..50 {
            let gate = Gate::new(false);
            let places: Vec<_> = (0..8).map(|_| gate.number()).collect();
            let order = Mutex::new(Vec::new());
            std::thread::scope(|scope| {
                for place in places.into_iter().rev() {
                    let order = &order;
                    scope.spawn(move || {
                        enter(&place).unwrap();
                        order.lock().push(place.number);
                    });
                }
            });
            assert!(order.lock().is_sorted(), "{order:?}");
        }
    }

    #[test]
    fn who_is_away_lends_the_gate_and_a_cancelled_one_passes_it_on() {
        let gate = Gate::new(false);
        let (first, second, third) = (gate.number(), gate.number(), gate.number());
        enter(&first).unwrap();
        let source = CancelSource::new();
        source.cancel();
        assert_eq!(second.enter(&source.token(), || {}), Err(Cancelled));
        first.away(&CancelSource::new().token(), || enter(&third).map(|()| drop(third))).unwrap().unwrap();
        drop(first);
        assert!(gate.0.state.lock().working.is_none());
    }

    #[test]
    fn a_panic_gives_the_gate_back() {
        let gate = Gate::new(false);
        let place = gate.number();
        let broken = std::thread::scope(|scope| {
            let turn = scope.spawn(move || {
                enter(&place).unwrap();
                std::panic::resume_unwind(Box::new("asked to"));
            });
            turn.join().is_err()
        });
        assert!(broken);
        enter(&gate.number()).unwrap();
    }
}
