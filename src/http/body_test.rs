use super::{ttl::DEFAULT_TTL, *};
use std::time::Duration;

const HOUR: Duration = Duration::from_hours(1);

fn acquire(text: &str) -> Result<(Acquire, Duration), Refusal> {
    let body: Acquire = parse(text.as_bytes())?;
    let ttl = Ttl::resolve(body.ttl_seconds, HOUR)?;
    Ok((body, ttl))
}

#[test]
fn what_is_left_out_has_its_default() {
    for text in ["", "{}", "\t{ } ", "\r\n{}\n"] {
        let (body, ttl) = acquire(text).expect(text);
        assert!(
            body.selector.is_empty() && body.target.is_none(),
            "{text:?}"
        );
        assert_eq!(ttl, DEFAULT_TTL);
    }
    let resolved = Ttl::resolve(None, Duration::from_secs(9));
    assert_eq!(
        resolved,
        Ok(Duration::from_secs(9)),
        "never over the maximum"
    );
}

#[test]
fn what_is_sent_is_taken() {
    let text = r#"{"target":"Example.com:443","ttlSeconds":3600,"selector":{"geo":"de","asn":""}}"#;
    let (body, ttl) = acquire(text).expect(text);
    assert_eq!(body.selector["geo"], "de");
    assert_eq!(body.selector["asn"], "");
    assert_eq!(body.target.as_deref(), Some("example.com"));
    assert_eq!(ttl, HOUR);
    for (sent, seconds) in [("1", 1), ("300.0", 300), ("3e2", 300), ("3600.0", 3600)] {
        let (_, ttl) = acquire(&format!(r#"{{"ttlSeconds":{sent}}}"#)).expect(sent);
        assert_eq!(ttl, Duration::from_secs(seconds));
    }
}

#[test]
fn a_bad_lifetime_is_an_invalid_ttl() {
    for ttl in [
        "0",
        "-1",
        "-0",
        "1.5",
        "0.0",
        "-300.0",
        "0.9999999",
        "3601.0",
        "1e19",
        "1e300",
        "3601",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775809",
        "1e400",
        "-1e400",
        "null",
        "true",
        r#""300""#,
        "[300]",
        "[]",
        r#"{"a":[1]}"#,
        "{}",
    ] {
        for text in [
            format!(r#"{{"ttlSeconds":{ttl}}}"#),
            format!(r#"{{"ttlSeconds":{ttl},"selector":{{}}}}"#),
        ] {
            match acquire(&text) {
                Err(Refusal::InvalidTtl(message)) => {
                    assert!(message.starts_with("ttlSeconds: "), "{text}: {message}");
                }
                other => panic!("{text}: {:?}", other.map(|(_, ttl)| ttl)),
            }
        }
    }
}

#[test]
fn a_bad_body_is_refused_and_names_the_field() {
    let deep = format!(r#"{{"selector":{}"#, "[".repeat(100_000));
    for (text, named) in [
        (r#"{"extra":1}"#, "`extra`"),
        (r#"{"Selector":{}}"#, "`Selector`"),
        (r#"{"ttlseconds":1}"#, "`ttlseconds`"),
        (r#"{"target":"a","target":"a"}"#, "`target`"),
        (r#"{"ttlSeconds":1,"ttlSeconds":1}"#, "`ttlSeconds`"),
        (r#"{"selector":{},"selector":{}}"#, "`selector`"),
        (r#"{"selector":{"geo":"de","geo":"de"}}"#, "selector.geo: "),
        (
            r#"{"selector":{"g\u0065o":"de","geo":"fr"}}"#,
            "selector.geo: ",
        ),
        (r#"{"selector":null}"#, "`selector`"),
        (r#"{"selector":[]}"#, "`selector`"),
        (r#"{"selector":"geo=de"}"#, "`selector`"),
        (r#"{"selector":{"geo":1}}"#, "selector.geo: "),
        (r#"{"selector":{"geo":null}}"#, "selector.geo: "),
        (r#"{"selector":{"geo":["de"]}}"#, "selector.geo: "),
        (r#"{"selector":{"":"x"}}"#, "selector: "),
        (r#"{"selector":{"-a":"x"}}"#, "selector: "),
        (r#"{"selector":{"a b":"x"}}"#, "selector: "),
        (r#"{"target":null}"#, "target: "),
        (r#"{"target":5}"#, "target: "),
        (r#"{"target":1e400}"#, "target: "),
        (r#"{"target":""}"#, "target: "),
        (r#"{"target":"https://example.com/"}"#, "target: "),
        ("null", "object"),
        ("[]", "object"),
        (" ", "not JSON"),
        ("\n", "not JSON"),
        ("\u{c}", "object"),
        ("\u{c}{}", "object"),
        ("{}\u{c}", "not JSON"),
        (r#"[{"geo":"de"},300,"a"]"#, "object"),
        ("300", "object"),
        (r#""{}""#, "object"),
        ("{", "not JSON"),
        ("{}{}", "not JSON"),
        ("{} x", "not JSON"),
        ("{'target':'a'}", "not JSON"),
        (r#"{"target":"a",}"#, "not JSON"),
        (r#"{"ttlSeconds":01}"#, "ttlSeconds: "),
        (r#"{"ttlSeconds":}"#, "ttlSeconds: "),
        (r#"{"ttlSeconds":NaN}"#, "ttlSeconds: "),
        ("\u{feff}{}", "object"),
        (&deep, "`selector`"),
    ] {
        match acquire(text) {
            Err(Refusal::InvalidBody(message)) => {
                assert!(message.contains(named), "{text:.60}: {message}");
                let clean = !message.contains(" at line ") || message.contains("not JSON");
                assert!(clean, "{text:.60}: {message}");
            }
            other => panic!("{text:.60}: {:?}", other.map(|(_, ttl)| ttl)),
        }
    }
    let latin: Result<Acquire, _> = parse(b"{\"target\":\"b\xfccher.de\"}");
    assert!(matches!(latin, Err(Refusal::InvalidBody(_))));
}

#[test]
fn a_report_has_one_of_three_results() {
    for (text, result) in [
        (r#"{"result":"ok"}"#, ReportResult::Ok),
        (r#"{"result":"rate_limited"}"#, ReportResult::RateLimited),
        (
            r#"{"target":"A.example","result":"banned"}"#,
            ReportResult::Banned,
        ),
    ] {
        let body: Report = parse(text.as_bytes()).expect(text);
        assert_eq!(body.result(), Ok(result));
    }
    for text in [
        "",
        "{}",
        r#"{"result":""}"#,
        r#"{"result":"OK"}"#,
        r#"{"result":"Banned"}"#,
    ] {
        let body: Report = parse(text.as_bytes()).expect(text);
        assert!(
            matches!(body.result(), Err(Refusal::InvalidResult(_))),
            "{text}"
        );
    }
    for text in [
        r#"{"result":1}"#,
        r#"{"result":null}"#,
        r#"{"result":"ok","result":"ok"}"#,
    ] {
        match parse::<Report>(text.as_bytes()) {
            Err(Refusal::InvalidBody(message)) => {
                assert!(message.contains("result"), "{message}");
            }
            _ => panic!("{text}"),
        }
    }
}

#[test]
fn a_renewal_has_no_other_field() {
    assert!(parse::<Renew>(b"").is_ok() && parse::<Renew>(b"{\"ttlSeconds\":5}").is_ok());
    let refused = parse::<Renew>(b"{\"target\":\"a\"}");
    assert!(matches!(refused, Err(Refusal::InvalidBody(message)) if message.contains("`target`")));
}
