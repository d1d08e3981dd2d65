import Quire
import Testing

@testable import QuireCommand

/// Templates that have no end are refused, not crashed on.
@Suite struct TemplateBoundsTests {
    private func text(_ sources: [String: String], _ context: [String: Any] = [:]) throws -> String
    {
        let template = ClassTemplate(builtIn: "t", summary: "", sources: sources)
        return try TemplateRenderer(template).text(of: ClassTemplate.entityName, with: context)
    }

    private func message(
        _ sources: [String: String], _ context: [String: Any] = [:]
    ) throws -> String {
        let error = #expect(throws: QuireError.self) { try text(sources, context) }
        let found = try #require(error)
        #expect(found.code == .invalidFormat)
        return found.message
    }

    private static let nested =
        "files include or extend each other more than 32 levels deep; perhaps “%” includes itself."

    private func nested(_ name: String) -> String { Self.nested.replacing("%", with: name) }

    @Test(arguments: ["include", "extends"])
    func aFileThatIncludesItselfIsRefused(_ tag: String) throws {
        #expect(
            try message(["Entity.stencil": "a\n{% \(tag) \"Entity.stencil\" %}"])
                == "The template “t/Entity.stencil” cannot be used, line 2: \(nested("Entity.stencil"))"
        )
    }

    @Test func filesThatIncludeEachOtherAreRefused() throws {
        let sources = [
            "Entity.stencil": "{% include name %}",
            "B.stencil": "{% extends \"C.stencil\" %}{% block x %}{{ block.super }}{% endblock %}",
            "C.stencil": "{% block x %}{% include \"Entity.stencil\" %}{% endblock %}",
        ]
        #expect(try message(sources, ["name": "B.stencil"]).contains("more than 32 levels deep"))
    }

    /// 2 to the power of 20 files.
    @Test func filesThatMultiplyAreRefused() throws {
        var sources = ["Entity.stencil": "{% include \"0\" %}", "20": "x"]
        for level in 0..<20 {
            let next = "{% include \"\(level + 1)\" %}"
            sources["\(level)"] = next + next
        }
        #expect(
            try message(sources).contains(
                "more than 100000 files are included for one generated file."))
    }

    @Test func tagsThatAreNestedTooDeepAreRefused() throws {
        func source(_ depth: Int) -> String {
            String(repeating: "{% if yes %}", count: depth) + "x"
                + String(repeating: "{% endif %}", count: depth)
        }
        #expect(try text(["Entity.stencil": source(64)], ["yes": true]) == "x")
        #expect(
            try message(["Entity.stencil": source(5_000)]).contains(
                "tags are nested more than 64 levels deep."))
        #expect(
            try message([
                "Entity.stencil": "{% include \"a\" %}", "a": source(65),
            ]).contains("tags are nested more than 64 levels deep."))
    }

    /// Every file at the greatest depth, each with tags nested to theirs, fits on the stack of any thread.
    @Test func whatIsAllowedIsRendered() throws {
        let open = String(repeating: "{% if yes %}{% for i in one %}", count: 31)
        let close = String(repeating: "{% endfor %}{% endif %}", count: 31)
        var sources = ["Entity.stencil": "\(open){% include \"0\" %}\(close)"]
        for level in 0..<31 {
            sources["\(level)"] = "\(open){% include \"\(level + 1)\" %}\(close)"
        }
        sources["31"] = "x"
        #expect(try text(sources, ["yes": true, "one": [1]]) == "x")
    }

    /// A file may be included as often as there are attributes.
    @Test func aFileMayBeIncludedManyTimesInARow() throws {
        let sources = [
            "Entity.stencil": "{% for i in many %}{% include \"a\" %}{% endfor %}", "a": "x",
        ]
        #expect(
            try text(sources, ["many": Array(0..<1000)]) == String(repeating: "x", count: 1000))
    }

    private static let loops =
        "loops run more than 1000000 times for one generated file."

    /// Stencil would make an array of the numbers, or stop the program where they are too great for one.
    @Test(arguments: [
        "1...1000000000", "0...9223372036854775807", "1...1e30", "inf...1", "nan...2",
        "1000000000...1", "1...none|default:1000000000",
    ])
    func aRangeWithoutEndIsRefused(range: String) throws {
        let source = "a\n{% for i in \(range) %}x{% endfor %}"
        #expect(
            try message(["Entity.stencil": source])
                == "The template “t/Entity.stencil” cannot be used, line 2: \(Self.loops)")
    }

    @Test func loopsThatMultiplyAreRefused() throws {
        func loop(_ content: String) -> String { "{% for i in 1...600000 %}\(content){% endfor %}" }
        #expect(try message(["Entity.stencil": loop(loop("x"))]).contains(Self.loops))
        // Each file of code begins anew.
        let template = ClassTemplate(
            builtIn: "t", summary: "", sources: ["Entity.stencil": loop("x{% break %}")])
        let renderer = TemplateRenderer(template)
        for _ in 0..<2 { #expect(try renderer.text(of: "Entity.stencil", with: [:]) == "x") }
    }

    /// 2 to the power of 40 texts of ten bytes, in a template of 2 KB.
    @Test func blocksThatMultiplyAreRefused() throws {
        var source = "{% block b0 %}0123456789{% endblock %}"
        for level in 1...40 {
            let last = "{{ block.b\(level - 1) }}"
            source += "{% block b\(level) %}\(last)\(last){% endblock %}"
        }
        #expect(
            try message(["Entity.stencil": source]).contains(
                "more than 256 MB are written for one generated file."))
    }

    @Test func blocksThatAreExtendedStillShowWhatTheyReplace() throws {
        let sources = [
            "Entity.stencil":
                "{% extends \"Base\" %}{% block a %}<{{ block.super }}>{% endblock %}",
            "Base": "{% block a %}old{% endblock %}{% block b %}rest{% endblock %}{{ block.b }}",
        ]
        #expect(try text(sources) == "<old>restrest")
    }

    @Test func loopsDoWhatTheyDoInStencil() throws {
        let source = """
            {% for a in letters where a == "q" %}x{% empty %}none{% endfor %}\
            {% for n in 3...1 %}{{ n }}{% if n == 2 %}{% break %}{% endif %}{% endfor %}\
            {% for key, value in pairs %}{{ key }}{{ value }}{% endfor %}\
            {% for x in nothing %}x{% endfor %}\
            {% outer: for a in letters %}{% for n in 1...3 %}{% if n == 2 %}{% continue outer %}\
            {% endif %}{{ a|literal }}{{ n }}{{ forloop.outer.counter }}{% endfor %}{% endfor %}
            """
        let context: [String: Any] = ["letters": ["a", "b"], "pairs": ["k": 1]]
        #expect(try text(["Entity.stencil": source], context) == "none32k1\"a\"11\"b\"12")
    }

    @Test(arguments: [
        ("{% for x %}{% endfor %}", "the syntax: `for <x> in <y> [where <condition>]`."),
        ("{% for x in 1...3 %}", "`endfor` was not found."),
        ("{% for x in y|unknown %}{% endfor %}", "Unknown filter 'unknown'."),
        ("{% for x in y...3 %}{% endfor %}", "'from' value is not an Integer (nil)."),
        ("{% block %}{% endblock %}", "'block' tag takes one argument, the block name."),
    ])
    func mistakesInBoundedTagsAreReported(source: String, reason: String) throws {
        let found = try message(["Entity.stencil": "\n\n" + source])
        #expect(found.hasPrefix("The template “t/Entity.stencil” cannot be used, line 3: "))
        #expect(found.contains(reason))
    }

    @Test func indentationsAreBounded() throws {
        func message(indentedBy width: String) throws -> String {
            try self.message(["Entity.stencil": "{{ text|indent:\(width) }}"], ["text": "a\nb"])
        }
        #expect(try message(indentedBy: "1000000000").contains("more than 256 MB"))
        #expect(try message(indentedBy: "9223372036854775807").contains("more than 256 MB"))
        #expect(try message(indentedBy: "-1").contains("cannot be indented by -1 characters."))
        let source = "{{ text|indent }}{{ text|indent:2,\"-\",true }}"
        #expect(try text(["Entity.stencil": source], ["text": "a\nb"]) == "a\n    b--a\n--b")
    }

    /// Stencil looks for it before the beginning of what is empty, which stops the program.
    @Test(arguments: [
        "{{ empty.last }}", "{{ pair.list.last.name }}", "{{ \"x\"|default:empty.last }}",
        "{% if empty.last %}{% endif %}", "{% for x in empty.last %}{% endfor %}",
        "{{ \"\" if no.text.last }}", "{{ text.last|uppercase }}", "{{ (empty.last) }}",
        "{% for x in \"1...empty.last|default:\" %}{% endfor %}",
        "{% : for a in one %}{{ forloop.label.last }}{% endfor %}",
        "{% for f in \"default:empty.last\"|split %}{{ nothing|filter:f }}{{ 1|filter:f }}{% endfor %}",
        "{% for k in \"first,last\"|split:\",\" %}{{ empty[k] }}{% endfor %}",
        "{{ empty[\"last\"] }}", "{{ empty['last'] }}", "{{ pair[\"list\"][key].x }}",
        "{{ empty[pair[\"key\"]] }}", "{% for forloop in many %}{{ forloop.last }}{% endfor %}",
        "{% for \" in many %}{{ \".last }}{% endfor %}",
    ])
    func theLastOfWhatMayBeEmptyIsRefused(source: String) throws {
        let context: [String: Any] = [
            "empty": [String](), "text": "", "one": [1], "key": "last", "many": [[String]()],
            "pair": ["list": [String](), "key": "last"],
        ]
        #expect(
            try message(["Entity.stencil": "a\n" + source], context).hasPrefix(
                "The template “t/Entity.stencil” cannot be used, line 2: "))
    }

    @Test func theReasonSaysWhatToWrite() throws {
        #expect(
            try message(["Entity.stencil": "{{ entity.list.last }}"])
                == "The template “t/Entity.stencil” cannot be used, line 1: “entity.list.last” fails for an empty list "
                + "or string; write “entity.list|last”.")
        #expect(
            try message(["Entity.stencil": "{{ list[key] }}"]).contains(
                "“[key]” must be a number, or a string other than \"last\"."))
    }

    @Test func whatIsLikeItIsRendered() throws {
        let source = """
            {% for x in list %}{{ x }}{% if not forloop.last %}, {% endif %}{% endfor %};\
            {% outer: for x in list %}{% for y in list %}{{ forloop.outer.last }}{% endfor %}{% endfor %};\
            {{ list|last }}{{ empty|last }}{{ pair.lastName }}{{ pair["name"] }}{{ list[1] }};\
            {{ nothing|default:"[Int]" }}{{ list.first }}{% if (1 in list or not list) and no %}x{% endif %}
            """
        let context: [String: Any] = [
            "list": [1, 2], "empty": [String](), "pair": ["lastName": "l", "name": "n"],
        ]
        #expect(
            try text(["Entity.stencil": source], context)
                == "1,2;falsefalsetruetrue;2ln2;[Int]1")
    }

    @Test(arguments: ["not ", "(", "a and ", "a or ", "a == "])
    func expressionsThatAreNestedTooDeepAreRefused(_ part: String) throws {
        let condition = String(repeating: part, count: 200_000) + "a"
        for source in ["{% if \(condition) %}{% endif %}", "{{ \(condition) }}"] {
            #expect(
                try message(["Entity.stencil": source]).contains(
                    "a tag has more than 128 operators, parentheses and brackets."))
        }
        let keys = String(repeating: "a[", count: 100_000) + "a"
        #expect(try message(["Entity.stencil": "{{ \(keys) }}"]).contains("more than 128"))
    }

    @Test func expressionsAtTheBoundAreEvaluated() throws {
        let source = "{% if \(String(repeating: "not ", count: 128))yes %}x{% endif %}"
        #expect(try text(["Entity.stencil": source], ["yes": true]) == "x")
    }

    @Test(arguments: [
        "{{ x| |uppercase }}", "{{ x|: }}", "{{ x|::|y }}", "{{ (x|:) }}",
        "{% filter : %}{% endfilter %}",
        "{% if x|: %}{% endif %}", "{{ \"x\"|filter:\":\" }}", "{% for i in 1|:...2 %}{% endfor %}",
    ])
    func aFilterWithoutANameIsRefused(source: String) throws {
        #expect(
            try message(["Entity.stencil": source]).contains("a filter is missing after “|”."))
    }

    /// Stencil would make an array of the numbers.
    @Test(arguments: [
        "{% if 1 in 1...1000000000000 %}{% endif %}", "{{ 1...1000000000000 }}", "{{ 1...1e30 }}",
        "{% for x in y where x in 1...1e30 %}{% endfor %}", "{{ 1 if 1 in 1...1e30 }}",
        "{% ifnot 1...1e30 %}{% endif %}",
    ])
    func rangesAreForLoopsOnly(source: String) throws {
        #expect(
            try message(["Entity.stencil": source]).contains(
                "a range (“...”) is allowed only in “for”."))
    }

    @Test func aFilterThatAppliesItselfIsRefused() throws {
        let source =
            "{% for f in \"filter:f,uppercase\"|split:\",\" %}{{ \"x\"|filter:f }}{% endfor %}"
        #expect(
            try message(["Entity.stencil": source]).contains("applies itself more than 16 levels"))
        #expect(
            try text(["Entity.stencil": "{{ \"x\"|filter:f }}"], ["f": "uppercase"]) == "X")
    }
}
