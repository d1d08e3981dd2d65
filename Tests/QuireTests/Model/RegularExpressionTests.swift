import Foundation
import QuireTestSupport
import Testing

@testable import Quire

/// Regular expressions of attributes, above all those that take time exponential in the length of a text.
@MainActor
@Suite struct RegularExpressionTests {
    nonisolated static let model = ManagedObjectModel(entities: [
        FixtureModels.entity(
            "Item", FixtureModels.attribute("name", .string),
            FixtureModels.attribute("code", .string) { $0.regularExpression = "(a+)+b" },
            FixtureModels.attribute("other", .string) {
                $0.validationPredicates = [ValidationPredicate("SELF MATCHES '(a+)+b'")]
            })
    ])
    /// Matching this takes some 2²⁸ steps.
    nonisolated static let hard = AttributeValue.string(String(repeating: "a", count: 28))
    static let limit = Duration.seconds(8)

    private func attribute(_ pattern: String) -> AttributeDescription {
        var attribute = AttributeDescription(name: "code", type: .string)
        attribute.regularExpression = pattern
        return attribute
    }

    private func expectTooLong(
        _ rule: QuireError.Rule? = .regularExpression, _ property: String = "code",
        _ body: () throws -> Void
    ) throws {
        var error: QuireError?
        let time = ContinuousClock().measure {
            error = #expect(throws: QuireError.self) { try body() }
        }
        let found = try #require(error)
        #expect(found.code == .validation)
        #expect(found.subject.rule == rule)
        #expect(found.subject.property == property)
        #expect(found.message.contains("takes too long"), "\(found.message)")
        #expect(found.message.contains("(a+)+b"), "\(found.message)")
        #expect(time < Self.limit, "\(time)")
    }

    @Test func oneThatTakesTooLongIsAValidationError() throws {
        try expectTooLong { try attribute("(a+)+b").validate(Self.hard, entity: "Item") }
        try attribute("(a+)+b").validate("aab", entity: "Item")
    }

    @Test func savesAreNotHeldUp() throws {
        let stack = try TestStack(Self.model)
        let context = stack.mainContext()
        let item = try context.insertObject(entityName: "Item")
        item["code"] = Self.hard
        try expectTooLong { try context.save() }
        item["code"] = "aab"
        item["other"] = Self.hard
        try expectTooLong(.custom, "other") { try context.save() }
        item["other"] = "aab"
        try context.save()
    }

    @Test func batchRequestsAreNotHeldUp() throws {
        let stack = try TestStack(Self.model)
        let context = stack.mainContext()
        try expectTooLong {
            try context.execute(
                BatchInsertRequest(entityName: "Item", objects: [["code": Self.hard]]))
        }
        try context.execute(
            BatchInsertRequest(entityName: "Item", objects: [["name": Self.hard, "code": "aab"]]))
        for value in [QueryExpression.constant(Self.hard), .key("name")] {
            try expectTooLong {
                try context.execute(
                    BatchUpdateRequest(
                        entityName: "Item", propertiesToUpdate: ["code": value]))
            }
        }
        #expect(try stack.stored("Item", "code") == [#"string("aab")"#])
    }

    @Test(arguments: [
        ("[A-Z]+", "ABC", true), ("[A-Z]+", "ABCd", false), ("a|abc", "abc", true),
        ("(?x) a b # two letters", "ab", true),
        ("(?x) a b # two letters", "abc", false), ("a.c", "a\u{301}c", true), ("a\n?", "a\n", true),
        ("a", "a\n", false),
    ])
    func textsMatchAsAWhole(_ pattern: String, _ text: String, _ isValid: Bool) throws {
        let attribute = attribute(pattern)
        let isAccepted: Bool
        do {
            try attribute.validate(.string(text))
            isAccepted = true
        } catch let error as QuireError where error.subject.rule == .regularExpression {
            isAccepted = false
        }
        #expect(isAccepted == isValid)
    }

    @Test(arguments: ["", "(", "a)(b", "[", "*"])
    func malformedOnesAreTheModelsFault(_ pattern: String) {
        let error = #expect(throws: QuireError.self) { try attribute(pattern).validate("a") }
        #expect(error?.code == .invalidModel)
    }

    @Test func equalPatternsOfDifferentBytesAreToldApart() throws {
        try attribute("[\u{E9}]").validate("\u{E9}")
        #expect(throws: QuireError.self) { try attribute("[e\u{301}]").validate("\u{E9}") }
    }

    /// The text is long, the expression harmless.
    @Test func longTextsAreMatched() throws {
        let text = String(repeating: "abc ", count: 2_500)
        try attribute("([a-z]+ )*").validate(.string(text))
        try attribute("(?s).*c ").validate(.string(text))
    }
}
