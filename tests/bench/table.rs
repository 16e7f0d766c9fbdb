//! The table: rows, and what a set of measurements comes to.
use std::fmt;
use std::time::Duration;

/// One line of the table.
pub(crate) struct Row {
    name: String,
    value: String,
    floor: String,
    target: String,
    holds: bool,
}

/// What all runs of one measurement came to.
pub(crate) struct Times(Vec<Duration>);

impl Times {
    /// Runs it `count` times; each run says how long what it measures took.
    pub(crate) fn of(count: usize, run: impl FnMut(usize) -> Duration) -> Self {
        let mut all: Vec<Duration> = (0..count).map(run).collect();
        all.sort();
        Self(all)
    }

    /// The same for a floor and what is measured against it, in turn: what else the machine does hits both.
    pub(crate) fn beside(
        count: usize,
        mut floor: impl FnMut(usize) -> Duration,
        mut run: impl FnMut(usize) -> Duration,
    ) -> (Self, Self) {
        let mut floors = Vec::new();
        let times = Self::of(count, |index| {
            floors.push(floor(index));
            run(index)
        });
        (Self::of(count, |index| floors[index]), times)
    }

    /// The one in the middle.
    pub(crate) fn median(&self) -> Duration {
        self.0[self.0.len() / 2]
    }

    fn worst(&self) -> Duration {
        self.0[self.0.len() - 1]
    }
}

impl Row {
    /// A time with a limit of its own.
    pub(crate) fn time(name: impl Into<String>, times: &Times, limit: Duration) -> Self {
        let value = format!("{} (worst {})", ms(times.median()), ms(times.worst()));
        let target = format!("<= {}", ms(limit));
        Self { name: name.into(), value, floor: String::new(), target, holds: times.median() <= limit }
    }

    /// A time that may be so many times the floor's.
    pub(crate) fn times_floor(name: impl Into<String>, times: &Times, floor: &Times, limit: f64) -> Self {
        let ratio = times.median().as_secs_f64() / floor.median().as_secs_f64();
        Self {
            name: name.into(),
            value: format!("{} = {ratio:.2} x floor", ms(times.median())),
            floor: ms(floor.median()),
            target: format!("<= {limit} x floor"),
            holds: ratio <= limit,
        }
    }

    /// A time that may be so much more than the floor's.
    pub(crate) fn over_floor(name: impl Into<String>, times: &Times, floor: &Times, limit: Duration) -> Self {
        let over = times.median().saturating_sub(floor.median());
        Self {
            name: name.into(),
            value: format!("{} = floor + {}", ms(times.median()), ms(over)),
            floor: ms(floor.median()),
            target: format!("<= floor + {}", ms(limit)),
            holds: over <= limit,
        }
    }

    /// A rate, of `count` things in these times, that has to be a part of the floor's. `unit` is empty where the name
    /// tells what is counted.
    pub(crate) fn rate(
        name: impl Into<String>,
        count: f64,
        unit: &str,
        times: &Times,
        floor: &Times,
        least: f64,
    ) -> Self {
        let per_second = |times: &Times| count / times.median().as_secs_f64();
        let part = per_second(times) / per_second(floor);
        Self {
            name: name.into(),
            value: format!("{:.0}{unit}/s = {:.0} % of floor", per_second(times), part * 100.0),
            floor: format!("{:.0}{unit}/s", per_second(floor)),
            target: format!(">= {:.0} % of floor", least * 100.0),
            holds: part >= least,
        }
    }

    /// Times of a growing input: how many times the first the last may take.
    pub(crate) fn growth(name: impl Into<String>, all: &[Times], most: f64) -> Self {
        let seconds: Vec<f64> = all.iter().map(|times| times.median().as_secs_f64()).collect();
        let growth = seconds[seconds.len() - 1] / seconds[0];
        let each: Vec<String> = seconds.iter().map(|second| format!("{:.2}", second * 1000.0)).collect();
        Self {
            name: name.into(),
            value: format!("{} ms, x {growth:.1}", each.join(" ")),
            floor: String::new(),
            target: format!("<= x {most}"),
            holds: growth <= most,
        }
    }

    /// A number of something with a limit.
    pub(crate) fn amount(name: impl Into<String>, value: f64, limit: f64, unit: &str) -> Self {
        let digits = usize::from(value.fract() != 0.0) * 2;
        Self {
            name: name.into(),
            value: format!("{value:.digits$} {unit}"),
            floor: String::new(),
            target: format!("<= {limit} {unit}"),
            holds: value <= limit,
        }
    }
}

/// The first two lines.
pub(crate) fn header() -> String {
    let title = line("", "value", "floor", "target", "");
    format!("{title}\n{}", "-".repeat(title.len()))
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.holds { "" } else { "miss" };
        f.write_str(&line(&self.name, &self.value, &self.floor, &self.target, verdict))
    }
}

fn line(name: &str, value: &str, floor: &str, target: &str, verdict: &str) -> String {
    format!("{name:<44} {value:<30} {floor:<12} {target:<18} {verdict:<4}")
}

fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}
