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
                "more than 100000 files are included to write one file of code."))
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
}
