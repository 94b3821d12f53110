//! `surefoot demo`: the screen and the page on a recording of a made-up host that this program carries.
//!
//! `demo.surefoot` is written by `day`, which only tests build; a test holds one against the other. Its day is moved so that most of it lies
//! behind the moment of the start, and the last minutes are played as they pass.

#[cfg(test)]
mod day;
mod tour;

use crate::watch::terminal_of;
use anyhow::Context;
use clap::Args;
use serde_json::Value;
use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use surefoot_console::exit::Outcome;
use surefoot_console::units::parse_time;
use surefoot_daemon::{Config, Mode, Server};
use surefoot_hostfs::clock;
use surefoot_model::{Event, Notice, StreamClock};
use surefoot_store::recording::{End, Reader};
use surefoot_sys::signals;
use surefoot_sys::stdout::stdout;
use surefoot_terminal::{Kept, RoomState, Screen, history};
use tour::tour;

const RECORDING: &[u8] = include_bytes!("demo.surefoot");
/// What the recording is called in messages.
const NAME: &str = "the demo's recording";

/// The end of the day, which passes while it is looked at.
const PLAYED_NS: u64 = 300_000_000_000;
/// Windows that are kept: all of the day.
const KEEP_WINDOWS: usize = 4_000;
/// How long the day may take to get into the page before it is said where to look in it.
const SETTLE: Duration = Duration::from_secs(30);
/// How often it is looked whether the user wants the end.
const LOOK: Duration = Duration::from_millis(50);

/// As wide as a small screen.
const BANNER: &str = "DEMO DATA: a made-up day. Its last 5 minutes pass now, then nothing new comes";
const WHERE: &str = "Nothing of this host is shown: the host is made up. These sentences say where to look.";
const ENDED: &str = "The demo's day ends here, and nothing new comes. Start it again for another five minutes.";
/// Windows of what has passed that the screen itself keeps: the newest. For the others it asks the history, which knows what was found then.
const WINDOWS_ON_SCREEN: usize = 2;

#[derive(Args)]
pub struct DemoOptions {
    /// Port of the web page on 127.0.0.1; 0 picks a free one
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// Serve no web page
    #[arg(long, conflicts_with = "port")]
    pub no_page: bool,
    /// Stop after this time [default: run until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub duration: Option<Duration>,
}

pub fn run(options: &DemoOptions) -> anyhow::Result<Outcome> {
    let stop = signals::stop_flag()?;
    let start = Instant::now();
    let until = options.duration.map(|duration| start + duration);
    let now_realtime_ns = clock::realtime_ns();
    let terminal = terminal_of(false);
    let mode = Mode::Demo { tour: tour() };
    let port = (!options.no_page).then_some(options.port);
    let server = Server::start(Config { port, mode, keep_windows: KEEP_WINDOWS, ..Config::default() })?;
    let address = server.address().map(|address| format!("http://{address}/"));
    let screen = match terminal {
        Some((terminal, way, look)) => {
            let kept = Kept::new(address.clone(), Some(BANNER.to_owned()));
            let reader = server.history();
            let past = move |want| match reader.read(|view| history::moment(view, want)) {
                Ok(seen) => seen.map_err(|error| error.to_string()),
                Err(why) => Err(why),
            };
            Some(Screen::begin(terminal, kept, look, way, Some(Box::new(past)))?)
        }
        None => None,
    };
    let shown = Shown { server, screen };
    // At once: a build without optimisation takes seconds for the day.
    if shown.screen.is_none() {
        tell(&opening(address.as_deref()))?;
    }
    let (past, played) = day(now_realtime_ns)?;
    let is_window = |event: &Event| matches!(event, Event::Window(_));
    let mut windows_left = past.iter().filter(|event| is_window(event)).count();
    for event in past {
        windows_left -= usize::from(is_window(&event));
        match is_window(&event) && windows_left >= WINDOWS_ON_SCREEN {
            true => shown.server.publish(event),
            false => shown.add(event),
        }
    }
    shown.server.settle(SETTLE);
    shown.judge();
    match &shown.screen {
        // Below the newest ones, in the order in which they are read.
        Some(screen) => {
            let sentences = [WHERE].into_iter().chain(tour().into_iter().map(|stop| stop.sentence));
            sentences.for_each(|sentence| screen.add(&notice(sentence)));
        }
        None => tell(&where_to_look(&shown.server))?,
    }
    shown.judge();
    let is_over = || stop.load(Ordering::Relaxed) || until.is_some_and(|until| Instant::now() >= until);
    play(&shown, played, &is_over);
    while !is_over() {
        std::thread::sleep(LOOK);
    }
    let Shown { server, screen } = shown;
    drop(screen);
    server.stop();
    Ok(Outcome::Done)
}

/// Where the day is shown.
struct Shown {
    server: Server,
    screen: Option<Screen>,
}

impl Shown {
    fn add(&self, event: Event) {
        if let Some(screen) = &self.screen {
            screen.add(&event);
        }
        self.server.publish(event);
    }

    fn judge(&self) {
        if let Some(screen) = &self.screen {
            let (headline, findings) = self.server.findings();
            let state = |(room, why_not_watched)| RoomState { room, why_not_watched };
            screen.judge(headline, findings, self.server.rooms().into_iter().map(state).collect());
        }
    }
}

/// Shows each event when its time has come, and says when there are no more.
fn play(shown: &Shown, played: Vec<Event>, is_over: &dyn Fn() -> bool) {
    let begun = Instant::now();
    let mut from_ns = None;
    let mut now_ns = 0;
    for event in played {
        if let Some(at_ns) = event.comes_to_ns() {
            let from_ns = *from_ns.get_or_insert(at_ns);
            now_ns = at_ns;
            let due = begun + Duration::from_nanos(at_ns.saturating_sub(from_ns));
            while Instant::now() < due {
                if is_over() {
                    return;
                }
                std::thread::sleep(due.saturating_duration_since(Instant::now()).min(LOOK));
            }
        }
        let is_window = matches!(event, Event::Window(_));
        shown.add(event);
        if is_window {
            shown.judge();
        }
    }
    shown.add(Event::Notice(Notice { at_ns: now_ns, text: ENDED.to_owned() }));
    shown.judge();
}

fn notice(text: &str) -> Event {
    Event::Notice(Notice { at_ns: 0, text: text.to_owned() })
}

fn tell(text: &str) -> std::io::Result<()> {
    let mut out = stdout();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// What is printed at once when standard output is no terminal.
fn opening(address: Option<&str>) -> String {
    let page = address.map(|address| format!("page: {address} (Ctrl-C ends it)\n")).unwrap_or_default();
    format!(
        "Demo data: a made-up day of a made-up host. Nothing of this host is shown or changed.\n{page}\
         Its last five minutes pass while you look; then nothing new comes.\n"
    )
}

/// What is printed when the day is there.
fn where_to_look(server: &Server) -> String {
    let sentences: String = tour().iter().map(|stop| format!("- {}\n", stop.sentence)).collect();
    format!("{}\n{sentences}", server.findings().0.sentence)
}

/// The day, moved so that its last minutes begin at this time: what has passed by then, and what is played.
fn day(now_realtime_ns: u64) -> anyhow::Result<(Vec<Event>, Vec<Event>)> {
    let mut reader = Reader::of_bytes(NAME, RECORDING)?;
    let events: Vec<Event> = reader.by_ref().collect();
    anyhow::ensure!(reader.end() == End::Complete, "{NAME}: {}", reader.end());
    let mut clock = StreamClock::default();
    events.iter().for_each(|event| clock.take(event));
    let end_ns = clock.newest_ns.unwrap_or(0);
    let played_from_ns = end_ns.saturating_sub(PLAYED_NS);
    // Whole seconds, so that the hours of the day keep their round numbers of milliseconds.
    let shift_ns = now_realtime_ns.saturating_sub(clock.realtime_ns(played_from_ns)) / 1_000_000_000 * 1_000_000_000;
    let mut moved = Vec::with_capacity(events.len());
    for event in events {
        moved.push(later(event, shift_ns).context(NAME)?);
    }
    let first_played = moved.iter().position(|event| event.comes_to_ns().is_some_and(|at_ns| at_ns > played_from_ns));
    let played = moved.split_off(first_played.unwrap_or(moved.len()));
    Ok((moved, played))
}

/// The same event at a later time of the world's clock. `CLOCK_MONOTONIC` of a made-up host stays as it is.
///
/// Windows, most of the day, name no time of the world's clock.
fn later(event: Event, shift_ns: u64) -> serde_json::Result<Event> {
    if matches!(event, Event::Window(_)) {
        return Ok(event);
    }
    moved(event, shift_ns)
}

fn moved(event: Event, shift_ns: u64) -> serde_json::Result<Event> {
    let mut value = serde_json::to_value(event)?;
    move_times(&mut value, shift_ns);
    serde_json::from_value(value)
}

fn move_times(value: &mut Value, shift_ns: u64) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let is_time = name.ends_with("realtime_ns") || name == "realtime_offset_ns";
                match member.as_u64().filter(|&then_ns| is_time && then_ns > 0) {
                    Some(then_ns) => *member = Value::from(then_ns.saturating_add(shift_ns)),
                    None => move_times(member, shift_ns),
                }
            }
        }
        Value::Array(members) => members.iter_mut().for_each(|member| move_times(member, shift_ns)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_not_moved_names_no_time_of_the_world() {
        let mut reader = Reader::of_bytes(NAME, RECORDING).unwrap();
        let mut windows = 0;
        for event in reader.by_ref() {
            windows += usize::from(matches!(event, Event::Window(_)));
            let of = |event: Event| serde_json::to_value(event).unwrap();
            assert_eq!(of(later(event.clone(), 77).unwrap()), of(moved(event, 77).unwrap()));
        }
        assert!(windows > 1_000);
    }

    /// Five minutes pass and then it ends: said where it is begun, on the narrowest screen, too.
    #[test]
    fn it_is_said_that_the_day_passes_for_five_minutes() {
        assert!(BANNER.chars().count() <= 80 && BANNER.contains("last 5 minutes"), "{BANNER}");
        let opening = opening(Some("http://127.0.0.1:1/"));
        assert!(opening.contains("last five minutes") && opening.contains("page: http://127.0.0.1:1/ "), "{opening}");
    }
}
