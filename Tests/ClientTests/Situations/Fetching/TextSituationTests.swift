import Foundation
import Quire
import QuireMacros
import Testing

@Entity final class Correspondent: ManagedObject {
    @Attribute var name: String?
    @Attribute var email: String?
}

/// What people type into search fields.
@MainActor @Suite struct TextSituationTests {
    private static let names = [
        "50% off", "5000 off", "a_b", "axb", "O'Hara", "say \"hi\"", "back\\slash", "star*",
        "start",
        "what?", "whats", "(tel)", "[x]", "{y}", "a|b", "^top", "cash$", "dot.", "dots", "%@",
        "$NAME",
        "line\nbreak", "tab\there", "", " ", "Ёлка", "ёлка", "ЕЛКА", "Árbol", "árbol",
        "A\u{301}rbol", "arbol",
        "ﬁn", "İzmir", "izmir", "straße", "STRASSE", "👩‍👩‍👧 family", "👩 woman", "nul\u{1}",
        "まみれ (塗れ） [まにれ]",
    ]

    private static func fill(_ context: ManagedObjectContext) {
        for name in names {
            let contact = Correspondent(context: context)
            contact.name = name
            contact.email = name.isEmpty ? nil : name + "@example.org"
        }
    }

    private static func model() throws -> ManagedObjectModel {
        try ManagedObjectModel(classes: [Correspondent.self])
    }

    /// A search field with an apostrophe, a percent sign, a bracket: realm/realm-browser-osx#313, realm/realm-swift#6521,
    /// supermarin/ObjectiveRecord#16; an argument is never read as a format, and % and _ are no wildcards.
    @Test(arguments: SituationCase.all)
    func anArgumentIsTakenLiterally(_ situation: SituationCase) async throws {
        try await situation.run(Self.model(), fill: Self.fill) { context in
            for name in Self.names {
                let equal = try context.texts(
                    "name", of: "Correspondent", where: "name == %@", name)
                #expect(equal == [name])
                let among = try context.texts(
                    "name", of: "Correspondent", where: "name IN %@", [name, "?"])
                #expect(among == [name])
                for (operation, holds) in [
                    ("BEGINSWITH", { Array($0).starts(with: Array(name.utf8)) }),
                    (
                        "ENDSWITH",
                        { Array($0.reversed()).starts(with: Array(name.utf8.reversed())) }
                    ),
                    (
                        "CONTAINS",
                        { text in
                            name.isEmpty || text.firstRange(of: Array(name.utf8)) != nil
                        }
                    ),
                ] as [(String, ([UInt8]) -> Bool)] {
                    let expected = Self.names.filter { holds(Array($0.utf8)) }
                    let found = try context.texts(
                        "name", of: "Correspondent", where: "name \(operation) %@", name)
                    #expect(Set(found) == Set(expected), "\(operation) \(name)")
                    #expect(found.count == expected.count, "\(operation) \(name)")
                }
            }
        }
    }

    /// LIKE with a user's text that holds regular expression characters: magicalpanda/MagicalRecord#684 (“Can't open pattern”).
    /// Only * and ? have a meaning, and a backslash takes it away.
    @Test(arguments: SituationCase.all)
    func likeKnowsTwoWildcardsOnly(_ situation: SituationCase) async throws {
        try await situation.run(Self.model(), fill: Self.fill) { context in
            for (pattern, expected) in [
                ("まみれ (塗れ） [まにれ]", ["まみれ (塗れ） [まにれ]"]), ("(tel)", ["(tel)"]), ("[x]", ["[x]"]),
                ("50%*", ["50% off"]), ("a_b", ["a_b"]), ("a?b", ["a_b", "axb", "a|b"]),
                ("dot.", ["dot."]),
                ("dot?", ["dot.", "dots"]), ("star\\*", ["star*"]), ("star?", ["star*", "start"]),
                ("what\\?", ["what?"]), ("*$", ["cash$"]), ("^*", ["^top"]), ("a|b", ["a|b"]),
                ("line?break", ["line\nbreak"]), ("line*k", ["line\nbreak"]), ("", [""]),
                ("?", [" "]),
                ("*👧*", ["👩‍👩‍👧 family"]), ("back\\\\slash", ["back\\slash"]), ("%@", ["%@"]),
            ] {
                let found = try context.texts(
                    "name", of: "Correspondent", where: "name LIKE %@", pattern)
                #expect(Set(found) == Set(expected), "\(pattern)")
                #expect(found.count == expected.count, "\(pattern)")
            }
        }
    }

    /// [c] and [d] beyond ASCII: realm/realm-swift#2879 (Russian), #6081 (Á and á), #8128 (both options), and
    /// project-imas/encrypted-core-data#148 (Cyrillic). The same through a list, and in orders.
    @Test(arguments: SituationCase.all)
    func caseAndDiacriticsAreIgnoredInEveryScript(_ situation: SituationCase) async throws {
        try await situation.run(Self.model(), fill: Self.fill) { context in
            let trees = ["Árbol", "árbol", "A\u{301}rbol", "arbol"]
            for (format, argument, expected) in [
                ("name BEGINSWITH[c] %@", "ЁЛ", ["Ёлка", "ёлка"]),
                ("name CONTAINS[c] %@", "ЛКА", ["Ёлка", "ёлка", "ЕЛКА"]),
                ("name ==[c] %@", "ёЛКА", ["Ёлка", "ёлка"]),
                ("name ==[cd] %@", "елка", ["Ёлка", "ёлка", "ЕЛКА"]),
                ("name ==[c] %@", "ÁRBOL", ["Árbol", "árbol"]),
                ("name ==[cd] %@", "ARBOL", trees), ("name CONTAINS[cd] %@", "RBÓL", trees),
                ("name LIKE[cd] %@", "a?BOL", trees), ("name ENDSWITH[cd] %@", "RBOL", trees),
                ("name MATCHES[cd] %@", "[a-b]rbol", trees),
                ("name ==[d] %@", "arbol", ["árbol", "arbol"]),
                ("name ==[c] %@", "STRASSE", ["STRASSE"]), ("name ==[c] %@", "STRAßE", ["straße"]),
                ("name ==[cd] %@", "IZMIR", ["İzmir", "izmir"]),
                ("name CONTAINS %@", "👩", ["👩‍👩‍👧 family", "👩 woman"]),
                ("email BEGINSWITH[cd] %@", "ARBOL", trees),
            ] {
                let found = try context.texts("name", of: "Correspondent", where: format, argument)
                let texts = Set(found.map { Array($0.utf8) })
                #expect(
                    texts == Set(expected.map { Array($0.utf8) }), "\(format) \(argument): \(found)"
                )
                let among =
                    format.contains("==")
                    ? try context.texts(
                        "name", of: "Correspondent", where: format.replacing("==", with: "IN "),
                        [argument])
                    : found
                #expect(among == found, "IN \(argument)")
            }
            let order = try context.texts("name", of: "Correspondent", where: "name ==[cd] 'arbol'")
            {
                $0.sortOrderings = [
                    SortOrdering("name", options: [.caseInsensitive, .diacriticInsensitive]),
                    SortOrdering("email"), SortOrdering("name"),
                ]
            }
            #expect(order.count == 4)
        }
    }

    /// “Mary*a*b*” typed with a star between all letters did not come back: realm/realm-swift#4690 (“cause endless loop”).
    @Test(arguments: SituationStore.allCases)
    func likeWithManyStarsComesBack(_ store: SituationStore) async throws {
        try await withSituation(store, Self.model()) { container in
            let context = container.viewContext
            for number in 0..<20 {
                Correspondent(context: context).name =
                    String(repeating: "ab", count: 2_000) + (number == 7 ? "c" : "")
            }
            let pattern = "*" + String(repeating: "a*b*", count: 40) + "c"
            for options in ["", "[c]", "[cd]"] {
                let format = "name LIKE\(options) %@"
                #expect(
                    try context.texts("name", of: "Correspondent", where: format, pattern).count
                        == 1)
            }
            try context.save()
            context.reset()
            for options in ["", "[c]", "[cd]"] {
                let format = "name LIKE\(options) %@"
                #expect(
                    try context.texts("name", of: "Correspondent", where: format, pattern).count
                        == 1)
            }
        }
    }

    /// An import asks which of thousands of addresses are there already, whatever their case: Yalantis/FastEasyMapping#80 and
    /// groue/GRDB.swift#929 (COLLATE and IN). In memory each object was compared with each element, folded again each time.
    @Test(arguments: SituationCase.all)
    func longListsIgnoringCaseAreSearched(_ situation: SituationCase) async throws {
        let fill: @MainActor (ManagedObjectContext) throws -> Void = { context in
            for number in 0..<60 {
                let contact = Correspondent(context: context)
                contact.name =
                    number % 10 == 9 ? nil : (number % 2 == 0 ? "É" : "é") + "va\(number)"
                contact.email = "X\(number)"
            }
        }
        try await situation.run(Self.model(), fill: fill) { context in
            let typed = (0..<240).map { ($0 % 3 == 0 ? "ÉVA" : "eVa") + "\($0 / 2)" }
            // 0, 1, 3, 4, 6 … are written with the accent in the list.
            let exact = (0..<60).filter { $0 % 10 != 9 && ($0 % 3 == 0 || ($0 * 2 + 1) % 3 == 0) }
            for (options, numbers) in [
                ("[c]", exact), ("[cd]", (0..<60).filter { $0 % 10 != 9 }), ("[d]", []),
            ] {
                let found = try context.texts(
                    "email", of: "Correspondent", where: "name IN\(options) %@", typed)
                #expect(found == numbers.map { "X\($0)" }.sorted(), "\(options)")
                let others = try context.texts(
                    "email", of: "Correspondent", where: "NOT name IN\(options) %@", typed)
                #expect(others.count == 60 - numbers.count, "\(options)")
            }
        }
    }

    /// SwiftData's ways to search for text: `localizedStandardContains`, `starts(with:)`, `contains`, optionals with `??` and
    /// optional chaining: page “How to Handle Optional Values in SwiftData Predicates”, fatbobman.com.
    @Test(arguments: SituationCase.all)
    func swiftPredicatesSearchOptionalTexts(_ situation: SituationCase) async throws {
        try await situation.run(Self.model(), fill: Self.fill) { context in
            let typed = "ARBOL"
            let searches: [(Predicate<Correspondent>, Set<String>)] = [
                (
                    #Predicate { $0.name?.localizedStandardContains(typed) ?? false },
                    ["Árbol", "árbol", "arbol"]
                ),
                (#Predicate { $0.name?.starts(with: "star") == true }, ["star*", "start"]),
                (#Predicate { ($0.name ?? "").contains("%") }, ["50% off", "%@"]),
                (#Predicate { $0.email == nil }, [""]),
                (#Predicate { $0.name?.isEmpty ?? true }, [""]),
                (#Predicate { $0.email?.contains("'") == true && $0.name != nil }, ["O'Hara"]),
                (
                    #Predicate { $0.email.flatMap { $0.starts(with: "dot") } == true },
                    ["dot.", "dots"]
                ),
            ]
            for (predicate, expected) in searches {
                let found = try context.fetch(Correspondent.self, where: predicate)
                #expect(Set(found.map { $0.name ?? "nil" }) == expected)
            }
        }
    }
}
