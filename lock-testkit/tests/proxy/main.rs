//! Tests of the fault proxy in front of an echo server.
//!
//! The tests block on purpose: the proxy needs no runtime of its test.

mod echo;

use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::Ordering;
use std::time::Duration;

use lock_testkit::faults::Proxy;
use tokio::time::Instant;

use echo::{Echo, connect, eventually, hears, hears_nothing, is_cut, is_echoed, is_reset, says};

#[test]
fn everything_passes_and_is_counted() {
    let echo = Echo::start();
    let proxy = Proxy::before(echo.port);
    let (mut one, mut two) = (connect(&proxy), connect(&proxy));
    is_echoed(&mut one, "hello");
    is_echoed(&mut two, "you");
    assert_eq!((proxy.all().count(), proxy.all().open()), (2, 2));
    assert_eq!(proxy.all().bytes(), 16);
    assert_eq!(proxy.all().to_server().bytes(), 8);
    drop(one);
    eventually("an end is forwarded", || proxy.all().open() == 1);
    eventually("the server sees it", || {
        echo.closed.load(Ordering::SeqCst) == 1
    });
    assert_eq!(proxy.all().count(), 2);
    let large = "0123456789".repeat(100_000);
    let mut writing = two.try_clone().expect("a second handle");
    std::thread::scope(|threads| {
        threads.spawn(|| says(&mut writing, &large));
        hears(&mut two, &large);
    });
}

#[test]
fn a_delay_is_one_way_if_so_said_and_overlaps() {
    let echo = Echo::start();
    let proxy = Proxy::before(echo.port);
    let delay = Duration::from_millis(100);
    let mut client = connect(&proxy);
    proxy.all().to_client().delay(delay);
    let begin = Instant::now();
    for number in 0..5 {
        says(&mut client, &number.to_string());
        eventually("the request is not delayed", || {
            echo.received() == number + 1
        });
    }
    hears(&mut client, "01234");
    assert!(begin.elapsed() >= delay, "{:?}", begin.elapsed());
    assert!(begin.elapsed() < delay * 5, "{:?}", begin.elapsed());
    proxy.all().delay(delay);
    let begin = Instant::now();
    is_echoed(&mut client, "both ways");
    assert!(begin.elapsed() >= delay * 2, "{:?}", begin.elapsed());
}

#[test]
fn what_is_held_arrives_late_and_in_order() {
    let echo = Echo::start();
    let proxy = Proxy::before(echo.port);
    let mut client = connect(&proxy);
    is_echoed(&mut client, "a");
    proxy.all().to_server().hold();
    says(&mut client, "b");
    says(&mut client, "c");
    let mut late = connect(&proxy);
    says(&mut late, "d");
    hears_nothing(&mut client);
    hears_nothing(&mut late);
    client
        .shutdown(std::net::Shutdown::Write)
        .expect("it is open");
    assert_eq!(echo.received(), 1);
    assert_eq!(echo.closed.load(Ordering::SeqCst), 0, "an end is held too");
    proxy.all().pass();
    hears(&mut client, "bc");
    is_cut(&mut client);
    hears(&mut late, "d");
}

#[test]
fn what_is_lost_never_arrives() {
    let echo = Echo::start();
    let proxy = Proxy::before(echo.port);
    let mut client = connect(&proxy);
    let mut idle = connect(&proxy);
    is_echoed(&mut client, "a");
    is_echoed(&mut idle, "i");
    proxy.all().to_client().lose();
    says(&mut client, "b");
    eventually("the request arrives", || echo.received() == 3);
    hears_nothing(&mut client);
    proxy.all().pass();
    is_reset(&mut client);
    is_echoed(&mut idle, "on which nothing was lost");

    proxy.all().hold();
    let mut client = connect(&proxy);
    says(&mut client, "c");
    hears_nothing(&mut client);
    proxy.all().lose();
    proxy.all().pass();
    is_echoed(&mut connect(&proxy), "new");
}

#[test]
fn connections_are_cut_and_reset() {
    let echo = Echo::start();
    let proxy = Proxy::before(echo.port);
    let (mut cut, mut reset) = (connect(&proxy), connect(&proxy));
    is_echoed(&mut cut, "cut");
    is_echoed(&mut reset, "reset");
    proxy.opened_with("cut").cut();
    is_cut(&mut cut);
    is_echoed(&mut reset, "still there");
    proxy.all().reset();
    is_reset(&mut reset);
    eventually("the server sees it", || {
        echo.closed.load(Ordering::SeqCst) == 2
    });
    is_echoed(&mut connect(&proxy), "new");
}

#[test]
fn one_way_of_a_connection_is_closed() {
    let echo = Echo::start();
    let proxy = Proxy::before_server(format!("localhost:{}", echo.port));
    let mut client = connect(&proxy);
    is_echoed(&mut client, "hello");
    proxy.all().to_client().half_close();
    is_cut(&mut client);
    says(&mut client, "unheard");
    eventually("the other way goes on", || echo.received() == 12);
    let mut another = connect(&proxy);
    is_echoed(&mut another, "later ones are left alone");
    proxy.nth(1).to_server().half_close();
    eventually("the server sees an end", || {
        echo.closed.load(Ordering::SeqCst) == 1
    });
    // The server then closes the other direction, too.
    is_cut(&mut another);
}

#[test]
fn a_connection_is_cut_after_some_bytes() {
    let echo = Echo::start();
    let proxy = Proxy::before(echo.port);
    let mut client = connect(&proxy);
    proxy.all().to_client().cut_after(5);
    is_echoed(&mut client, "abc");
    says(&mut client, "defg");
    hears(&mut client, "de");
    is_cut(&mut client);
    is_echoed(&mut connect(&proxy), "once only");
}

#[test]
fn the_next_reply_is_lost_once() {
    let echo = Echo::start();
    let proxy = Proxy::before(echo.port);
    let mut client = connect(&proxy);
    is_echoed(&mut client, "a");
    proxy.all().lose_next_reply_and_cut();
    says(&mut client, "b");
    is_cut(&mut client);
    assert_eq!(echo.received(), 2, "the server did it");

    let mut client = connect(&proxy);
    is_echoed(&mut client, "c");
    proxy.all().lose_next_reply_and_go_silent();
    says(&mut client, "d");
    hears_nothing(&mut client);
    assert_eq!(echo.received(), 4, "the server did it");
    says(&mut client, "e");
    hears_nothing(&mut client);
    assert_eq!(echo.received(), 4, "silent for ever");
    is_echoed(&mut connect(&proxy), "others are left alone");
}

#[test]
fn one_of_several_connections_is_attacked() {
    let echo = Echo::start();
    let proxy = Proxy::before(echo.port);
    let mut clients: Vec<_> = (0..3).map(|_| connect(&proxy)).collect();
    for (client, name) in clients.iter_mut().zip(["red", "green", "blue"]) {
        is_echoed(client, name);
    }
    proxy.opened_with("green").hold();
    proxy.nth(2).hold();
    is_echoed(&mut clients[0], "passes");
    says(&mut clients[1], "green");
    hears_nothing(&mut clients[1]);
    says(&mut clients[2], "blue");
    hears_nothing(&mut clients[2]);
    assert_eq!(proxy.nth(2).to_server().bytes(), 8, "counted all the same");
    let mut another = connect(&proxy);
    says(&mut another, "green as well");
    hears_nothing(&mut another);
    proxy.nth(2).pass();
    hears(&mut clients[2], "blue");
    hears_nothing(&mut clients[1]);
    proxy.all().pass();
    hears(&mut clients[1], "green");
    hears(&mut another, "green as well");
}

#[test]
fn new_connections_are_refused_and_the_old_ones_stay() {
    let echo = Echo::start();
    let proxy = Proxy::before(echo.port);
    let mut client = connect(&proxy);
    is_echoed(&mut client, "a");
    proxy.refuse();
    let error =
        TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).expect_err("nobody listens");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
    is_echoed(&mut client, "still there");
    proxy.accept();
    is_echoed(&mut connect(&proxy), "back");
}

#[test]
fn new_connections_lead_to_another_server_and_the_old_ones_stay() {
    let (old, new) = (Echo::start(), Echo::start());
    let proxy = Proxy::before(old.port);
    let mut client = connect(&proxy);
    is_echoed(&mut client, "a");
    proxy.lead_to(new.port);
    is_echoed(&mut connect(&proxy), "b");
    assert!(new.received.load(Ordering::SeqCst) > 0);
    is_echoed(&mut client, "still there");
}

#[test]
fn a_server_that_is_not_there_is_told_and_dropping_closes_everything() {
    let nobody = Proxy::before(1);
    is_reset(&mut connect(&nobody));
    let echo = Echo::start();
    let proxy = Proxy::before(echo.port);
    let mut client = connect(&proxy);
    is_echoed(&mut client, "a");
    proxy.all().hold();
    let port = proxy.port();
    drop(proxy);
    is_cut(&mut client);
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err());
    eventually("the server sees it", || {
        echo.closed.load(Ordering::SeqCst) == 1
    });
}
