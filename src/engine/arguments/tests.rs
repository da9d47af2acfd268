//! What inline and native calls mean, and what is refused.

use super::*;
use serde_json::json;

fn schema() -> ArgumentSchema {
    ArgumentSchema::compile(&json!({
        "type": "object",
        "properties": {
            "query": { "type": "string", "minLength": 1 },
            "top": { "type": "integer", "minimum": 1 },
            "ratio": { "type": "number" },
            "deep": { "type": "boolean" },
            "tags": { "type": "array", "items": { "type": "string" } },
            "filter": { "type": "object" },
            "page": { "anyOf": [{ "type": "integer" }, { "type": "null" }] },
            "lang": { "$ref": "#/$defs/lang" },
            "size": { "type": ["string", "integer"] }
        },
        "required": ["query"],
        "additionalProperties": false,
        "$defs": { "lang": { "type": "string", "enum": ["de", "en"] } }
    }))
    .unwrap()
}

fn inline(attrs: &[(&str, &str)], body: &str) -> Result<Value, String> {
    let call = XmlToolCall {
        name: "search_kb".into(),
        attrs: attrs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        body: body.into(),
    };
    schema().read_inline(&call).map(Value::Object).map_err(|error| error.to_string())
}

#[test]
fn inline_calls_are_read_by_the_schema() {
    for (attrs, body, want) in [
        (&[][..], " parental leave\n", json!({"query": "parental leave"})),
        (&[("top", "3")], "leave", json!({"top": 3, "query": "leave"})),
        (&[("query", " a ")], "", json!({"query": " a "})),
        (
            &[("query", "a"), ("deep", "true"), ("ratio", "0.5"), ("top", " 3 ")],
            " \n",
            json!({"query": "a", "deep": true, "ratio": 0.5, "top": 3}),
        ),
        (
            &[("query", "a"), ("tags", "[\"x\"]"), ("filter", "{\"k\":1}")],
            "",
            json!({"query": "a", "tags": ["x"], "filter": {"k": 1}}),
        ),
        (
            &[("query", "a"), ("page", "null"), ("lang", "de"), ("size", "3")],
            "",
            json!({"query": "a", "page": null, "lang": "de", "size": "3"}),
        ),
        (&[("query", "a"), ("page", "2")], "", json!({"query": "a", "page": 2})),
        (&[], "{\"query\":\"leave\",\"top\":3}", json!({"query": "leave", "top": 3})),
        (&[("top", "3")], "\n{\"query\":\"say &quot;hi&quot;\"}\n", json!({"top": 3, "query": "say &quot;hi&quot;"})),
        (&[], "<query>leave</query><top>3</top>", json!({"query": "leave", "top": 3})),
        (
            &[],
            "\n<query>\n R&amp;D < 2020 \n</query>\n<deep>false</deep>",
            json!({"query": "R&D < 2020", "deep": false}),
        ),
        (&[], "<query><![CDATA[ a &amp; b ]]></query>", json!({"query": " a &amp; b "})),
        (&[], "<query>leave</query> now", json!({"query": "<query>leave</query> now"})),
        (&[], "<other>leave</other>", json!({"query": "<other>leave</other>"})),
        (&[], "AT&T revenue < 2020 && growth", json!({"query": "AT&T revenue < 2020 && growth"})),
        (&[], "R&amp;D &lt;draft&gt; &#8364;5", json!({"query": "R&D <draft> €5"})),
        (&[], "<![CDATA[x</tool>y]]>", json!({"query": "x</tool>y"})),
        (&[], "[1] what?", json!({"query": "[1] what?"})),
    ] {
        assert_eq!(inline(attrs, body), Ok(want), "{attrs:?} {body:?}");
    }
}

#[test]
fn what_does_not_fit_is_refused_with_the_field() {
    let long = format!("{{\"query\":{}", "x".repeat(1000));
    for (attrs, body, want) in [
        (&[][..], "", "query is missing"),
        (&[("top", "three")], "leave", "top: expected integer"),
        (&[("top", "3.0")], "leave", "top: expected integer"),
        (&[("deep", "yes")], "leave", "deep: expected boolean"),
        (&[("ratio", "NaN")], "leave", "ratio: expected number"),
        (&[("tags", "x, y")], "leave", "tags: expected JSON array or object"),
        (&[("top", "0")], "leave", "top: 0 is less than the minimum of 1"),
        (&[("lang", "fr")], "leave", "lang: \"fr\" is not one of \"de\" or \"en\""),
        (
            &[("colour", "red")],
            "leave",
            "colour is not known: the tool takes deep, filter, lang, page, query, ratio, size, tags, top",
        ),
        (&[("query", "a")], "leave", "the body: no required text argument is missing that it could be"),
        (&[("query", "a")], "{\"query\":\"b\"}", "query is given twice"),
        (&[], "<query>a</query><query>b</query>", "query is given twice"),
        (&[], "{\"query\":\"a\",\"query\":\"b\"}", "the body: query is given twice"),
        (&[], "{\"query\":\"a\",\"filter\":{\"k\":1,\"k\":2}}", "the body: k is given twice"),
        (&[], "{\"query\":\"a\",\"top\":\"3\"}", "top: \"3\" is not of type \"integer\""),
        (&[], "{\"query\":\"a\"", "the body: not valid JSON (EOF while parsing an object at line 1 column 12)"),
        (&[], "{\"query\":\"a\"} thanks", "the body: not valid JSON (trailing characters"),
        (&[], &long, "the body: not valid JSON ("),
        (&[], "{\"query\":\"\"}", "query: \"\" is shorter than 1 character"),
        (&[("page", "x")], "leave", "page: expected integer or null"),
    ] {
        let got = inline(attrs, body).unwrap_err();
        assert!(got.starts_with(want), "{attrs:?} {body:?}: {got}");
        assert!(got.chars().count() < 400 && !got.contains('\n'), "{got}");
    }
}

#[test]
fn text_for_several_missing_strings_is_refused() {
    let schema = ArgumentSchema::compile(&json!({"required": ["title", "text"]})).unwrap();
    let call = XmlToolCall { name: "save_note".into(), attrs: Vec::new(), body: "x".into() };
    let error = schema.read_inline(&call).unwrap_err().to_string();
    assert_eq!(error, "the body: it could be any of title, text; write a JSON object");
    let one = XmlToolCall { attrs: vec![("title".into(), "t".into())], ..call };
    assert_eq!(Value::Object(schema.read_inline(&one).unwrap()), json!({"title": "t", "text": "x"}));
}

#[test]
fn native_arguments_are_one_object_or_nothing() {
    let schema = schema();
    let read = |text| schema.read_native(text).map(Value::Object).map_err(|error| error.to_string());
    assert_eq!(read(" {\"query\":\"a\",\"top\":2}\n"), Ok(json!({"query": "a", "top": 2})));
    for (text, want) in [
        ("", "query is missing"),
        ("{}", "query is missing"),
        ("{\"query\":", "the arguments: not valid JSON (EOF"),
        ("{\"query\":\"a\"}}", "the arguments: not valid JSON (trailing"),
        ("\"{}\"", "the arguments: not a JSON object"),
        ("null", "the arguments: not a JSON object"),
        ("{\"query\":1}", "query: 1 is not of type \"string\""),
        ("{\"query\":\"a\",\"tags\":[\"x\",1]}", "tags.1: 1 is not of type \"string\""),
    ] {
        let got = read(text).unwrap_err();
        assert!(got.starts_with(want), "{text}: {got}");
    }
    let empty = ArgumentSchema::compile(&json!({"type": "object"})).unwrap();
    assert_eq!(empty.read_native(" "), Ok(Arguments::new()));
}

#[test]
fn deep_nesting_is_refused_without_harm() {
    let text = format!("{{\"query\":\"a\",\"filter\":{}", "{\"a\":".repeat(100_000));
    assert!(schema().read_native(&text).is_err());
}

#[test]
fn a_broken_schema_is_named() {
    let spec = ToolSpec {
        name: "odd".into(),
        description: String::new(),
        parameters: json!({"type": "nonsense"}),
        side_effects: false,
    };
    let error = ToolSchemas::compile([&spec]).unwrap_err().to_string();
    assert!(error.starts_with("the schema of tool odd is not usable: "), "{error}");
    let good = ToolSpec { parameters: json!({"type": "object"}), ..spec };
    assert!(ToolSchemas::compile([&good]).unwrap().get("odd").is_some());
}

#[test]
fn the_handed_cases_give_their_argument_text() {
    let cases = include_str!("../../../tests/data/stream/inline.jsonl");
    let mut checked = 0;
    for case in cases.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        if let Some(want) = case["arg_text"].as_str() {
            assert_eq!(inline(&[], case["expect_calls"][0]["body"].as_str().unwrap()), Ok(json!({"query": want})));
            checked += 1;
        }
    }
    assert_eq!(checked, 2);
}

#[test]
fn a_refusal_says_what_was_sent_in_one_line() {
    let wrong = || ArgumentError::new("top: expected integer");
    let call = |attrs: &[(&str, &str)], body: &str| XmlToolCall {
        name: "t".into(),
        attrs: attrs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        body: body.into(),
    };
    for (sent, said, arguments) in [
        (Sent::native("{\"top\":\n \"x\"}"), "sent: {\"top\": \"x\"}", Some(json!({"top": "x"}))),
        (Sent::native("{\"top\":"), "sent: {\"top\":", None),
        (Sent::native(" "), "no arguments were sent", Some(json!({}))),
        (Sent::native("[1]"), "sent: [1]", None),
        (Sent::inline(&call(&[("top", "x")], " a\n b")), "sent: top=\"x\" a b", Some(json!({"top": "x"}))),
        (Sent::inline(&call(&[], "{\"top\":\"x\"}")), "sent: {\"top\":\"x\"}", Some(json!({"top": "x"}))),
        (Sent::inline(&call(&[], "")), "no arguments were sent", Some(json!({}))),
    ] {
        assert_eq!(wrong().with_sent(&sent).to_string(), format!("top: expected integer; {said}"));
        assert_eq!(sent.arguments.map(Value::Object), arguments);
    }
    let long = wrong().with_sent(&Sent::native(&"é ".repeat(10_000))).to_string();
    assert!(long.chars().count() < 300 && long.ends_with('…'), "{long}");
}
