import Foundation
internal import QuireModel
internal import QuireSystem

/// Parses the text form of a model: the inverse of ``ModelTextWriter``.
///
/// The text is untrusted: its size and the depth of values in user info are bounded. The model is not validated.
struct ModelTextParser {
    /// Real models stay far below one megabyte.
    static let maximumSize = 8 << 20

    private var lexer: ModelTextLexer
    private var token: ModelTextLexer.Token { lexer.token }

    init(_ text: String, name: String) throws {
        if text.utf8.count > Self.maximumSize {
            throw QuireError(
                .invalidModel,
                "“\(name)” has \(text.utf8.count) bytes; a model in text form has at most \(Self.maximumSize).",
                file: name)
        }
        lexer = try ModelTextLexer(text, name: name)
    }

    // MARK: - Lines

    /// The part that the lines are about.
    private enum Block { case none, entity, composite }

    /// The keywords that begin a line.
    private static let keywords = [
        "entity", "composite", "request", "configuration", "version", "usedWith", "unique",
        "index", "compoundIndex",
    ]

    mutating func model() throws -> ManagedObjectModel {
        var model = ManagedObjectModel()
        var block = Block.none
        while true {
            try skipLineEnds()
            if token == .end { break }
            let start = lexer
            if let name = try propertyName() {
                switch block {
                case .entity:
                    model.entities[model.entities.count - 1].properties.append(
                        try property(named: name))
                case .composite:
                    guard case .attribute(let attribute) = try property(named: name) else {
                        throw start.error("A composite can contain only attributes.")
                    }
                    model.composites[model.composites.count - 1].elements.append(attribute)
                case .none:
                    throw start.error(
                        "The property “\(name)” is outside an entity; begin one with “entity NAME”."
                    )
                }
            } else {
                try statement(&model, &block)
            }
            try requireLineEnd()
        }
        for index in model.entities.indices { model.entities[index].takeLeftOutNames() }
        return model
    }

    private mutating func statement(
        _ model: inout ManagedObjectModel, _ block: inout Block
    ) throws {
        guard case .word(let keyword) = token, Self.keywords.contains(keyword) else {
            throw unknown(
                "a keyword (a property requires a colon after its name)", Self.keywords)
        }
        if ["unique", "index", "compoundIndex"].contains(keyword), block != .entity {
            throw lexer.error("“\(keyword)” is outside an entity; begin one with “entity NAME”.")
        }
        try lexer.advance()
        let entity = model.entities.count - 1
        switch keyword {
        case "entity":
            model.entities.append(try self.entity())
            block = .entity
        case "composite":
            model.composites.append(CompositeDescription(name: try text(), elements: []))
            block = .composite
        case "request":
            model.fetchRequestTemplates.append(try request())
            block = .none
        case "configuration":
            model.configurations.append(try configuration())
            block = .none
        case "version":
            model.versionIdentifiers.append(try text())
            block = .none
        case "usedWith":
            let keys: [(String, WritableKeyPath<ManagedObjectModel, Bool>)] = [
                ("cloudKit", \.usedWithCloudKit), ("swiftData", \.usedWithSwiftData),
            ]
            model[keyPath: try choice(keys, "used with a model")] = true
            block = .none
        case "unique": model.entities[entity].uniquenessConstraints.append(try names())
        case "compoundIndex": model.entities[entity].compoundIndexes.append(try names())
        default: model.entities[entity].indexes.append(try index())
        }
    }

    /// Takes a name and the colon after it; `nil` if the line does not begin with a property.
    private mutating func propertyName() throws -> String? {
        let name: String
        switch token {
        case .word(let word): name = word
        case .quoted(let text): name = text
        default: return nil
        }
        var ahead = lexer
        try ahead.advance()
        guard ahead.token == .mark(":") else { return nil }
        try ahead.advance()
        lexer = ahead
        return name
    }

    // MARK: - Entities

    private mutating func entity() throws -> EntityDescription {
        var entity = EntityDescription(name: try text())
        if try take(":") { entity.superentityName = try text() }
        try options(ModelTextOption<EntityDescription>.all, of: &entity, "an entity")
        return entity
    }

    private mutating func names() throws -> [String] {
        var names = [try text()]
        while try take(",") { names.append(try text()) }
        return names
    }

    /// An index. Without a name, its name is made of those of its elements, as in `byTitleYear`.
    private mutating func index() throws -> FetchIndexDescription {
        var index = FetchIndexDescription(name: "", elements: [])
        var ahead = lexer
        try ahead.advance()
        let isNamed = ahead.token == .mark(":")
        if isNamed {
            index.name = try text()
            try require(":", "after the name of an index")
        }
        while token != .lineEnd, token != .end {
            if try takeCondition(of: &index) { break }
            index.elements.append(try element())
            if try takeCondition(of: &index) { break }
            if try !take(",") { break }
        }
        if !isNamed {
            index.name =
                "by"
                + index.elements.map {
                    let name = $0.propertyName ?? "Expression"
                    return name.prefix(1).uppercased() + name.dropFirst()
                }.joined()
        }
        return index
    }

    private mutating func takeCondition(of index: inout FetchIndexDescription) throws -> Bool {
        guard token == .word("where"), case .quoted(let text) = try following() else {
            return false
        }
        index.partialIndexPredicate = text
        try lexer.advance()
        try lexer.advance()
        return true
    }

    private mutating func element() throws -> FetchIndexDescription.Element {
        var element: FetchIndexDescription.Element
        if token == .word("expression"), case .quoted(let text) = try following() {
            element = .init(expression: text)
            try lexer.advance()
            try lexer.advance()
        } else {
            element = .init(propertyName: try text())
        }
        while case .word(let word) = token, word != "where" {
            try lexer.advance()
            switch word {
            case "expression": element.expression = try text()
            case "type": element.expressionType = try text()
            case "ascending": element.isAscending = true
            case "descending": element.isAscending = false
            case "binary": element.kind = .binary
            case "rtree": element.kind = .rtree
            case "fullText": element.kind = .fullText
            default:
                throw lexer.error(
                    "“\(word)” is not an option of an index; "
                        + CloseNames.advice(
                            for: word,
                            among: [
                                "ascending", "descending", "rtree", "fullText", "expression",
                                "type", "where",
                            ], "the options are"))
            }
        }
        return element
    }

    private mutating func configuration() throws -> ManagedObjectModel.Configuration {
        var configuration = ManagedObjectModel.Configuration(name: try text(), entityNames: [])
        if try take(",") {
            configuration.usedWithCloudKit = try choice([("cloudKit", true)], "used with it")
        }
        try require(":", "before the entities of a configuration")
        if token != .lineEnd, token != .end { configuration.entityNames = try names() }
        return configuration
    }

    private mutating func request() throws -> FetchRequestTemplate {
        let name = try text()
        try require(":", "after the name of a request")
        var request = FetchRequestTemplate(name: name, entityName: try text())
        try options(ModelTextOption<FetchRequestTemplate>.all, of: &request, "a request")
        return request
    }

    // MARK: - Properties

    private mutating func property(named name: String) throws -> PropertyDescription {
        if case .arrow(let isToMany) = token {
            try lexer.advance()
            return .relationship(try relationship(named: name, isToMany: isToMany))
        }
        if token == .word("fetched") {
            try lexer.advance()
            var fetched = FetchedPropertyDescription(
                name: name,
                fetchRequest: FetchRequestTemplate(
                    name: ModelTextOption<FetchedPropertyDescription>.defaultRequestName,
                    entityName: try text()))
            try options(
                ModelTextOption<FetchedPropertyDescription>.all, of: &fetched, "a fetched property")
            return .fetched(fetched)
        }
        var attribute = AttributeDescription(name: name, type: try type(of: name))
        if attribute.type == .composite {
            switch token {
            case .word, .quoted: attribute.compositeName = try text()
            default: break
            }
        }
        if try take("=") { attribute.defaultValue = try value(of: attribute.type) }
        try options(ModelTextOption<AttributeDescription>.all, of: &attribute, "an attribute")
        return .attribute(attribute)
    }

    private mutating func relationship(
        named name: String, isToMany: Bool
    ) throws -> RelationshipDescription {
        var destination: String
        var inverse: String?
        if case .word(let word) = token, let dot = word.firstIndex(of: ".") {
            destination = String(word[..<dot])
            inverse = String(word[word.index(after: dot)...])
            try lexer.advance()
        } else {
            destination = try text("the entity of the relationship, such as “Author.books”")
        }
        var relationship = RelationshipDescription(
            name: name, destination: destination, inverse: inverse)
        relationship.isToMany = isToMany
        try options(
            ModelTextOption<RelationshipDescription>.all, of: &relationship, "a relationship")
        return relationship
    }

    /// Takes the type of an attribute, as one word, or as “integer 32”.
    mutating func type(of property: String? = nil) throws -> AttributeType {
        let names = AttributeType.allCases.map(\.textName)
        guard case .word(let word) = token else {
            throw lexer.error(
                "A type is expected; the types are: \(names.joined(separator: ", ")).")
        }
        var name = word.lowercased()
        if name == "integer", case .word(let width) = try following(),
            ["16", "32", "64"].contains(width)
        {
            try lexer.advance()
            name += width
        }
        let type =
            AttributeType.allCases.first { $0.textName.lowercased() == name }
            ?? AttributeType.textAliases[name]
        guard let type else {
            if let property, ["unique", "index", "compoundIndex"].contains(property) {
                throw lexer.error(
                    "“\(word)” is not a type; write “\(property) \(word)”, without a colon, for the constraint or index."
                )
            }
            let arrow = word.first?.isUppercase == true ? " (a relationship is “-> \(word)”)" : ""
            throw lexer.error(
                "“\(TerminalText.line(word))” is not a type\(arrow); "
                    + CloseNames.advice(for: word, among: names, "the types are"))
        }
        try lexer.advance()
        return type
    }

    // MARK: - Options

    private mutating func options<Part>(
        _ table: [ModelTextOption<Part>], of part: inout Part, _ noun: String
    ) throws {
        while try take(",") { try option(of: table, of: &part, noun) }
    }

    private mutating func option<Part>(
        of table: [ModelTextOption<Part>], of part: inout Part, _ noun: String
    ) throws {
        guard case .word(let word) = token, let option = table.first(where: { $0.name == word })
        else { throw unknown("an option of \(noun)", table.map(\.name)) }
        try lexer.advance()
        try option.read(&part, &self)
    }

    // MARK: - Values

    /// Takes a name or a text, with or without quotation marks.
    mutating func text(_ expected: String = "a name or a text") throws -> String {
        switch token {
        case .word(let text), .quoted(let text):
            try lexer.advance()
            return text
        default: throw lexer.error("\(found) is unexpected; \(expected) is expected here.")
        }
    }

    mutating func count() throws -> Int {
        guard case .word(let word) = token, let count = Int(word), count >= 0 else {
            throw lexer.error("\(found) is not a number of objects.")
        }
        try lexer.advance()
        return count
    }

    mutating func value(of type: AttributeType) throws -> AttributeValue {
        let start = lexer
        let text = try text("a value")
        do {
            return try AttributeValue(parsing: text, as: type)
        } catch let error as QuireError {
            throw start.error(error.message)
        }
    }

    mutating func choice<Value>(_ values: [(String, Value)], _ noun: String) throws -> Value {
        guard case .word(let word) = token, let value = values.first(where: { $0.0 == word })
        else { throw unknown(noun, values.map(\.0)) }
        try lexer.advance()
        return value.1
    }

    mutating func propertyListValue(depth: Int = 0) throws -> PropertyListValue {
        if depth > PropertyListValue.maximumDepth {
            throw lexer.error(
                "Values are nested more than \(PropertyListValue.maximumDepth) deep.")
        }
        switch token {
        case .quoted(let text):
            try lexer.advance()
            return .string(text)
        case .mark("["):
            var values: [PropertyListValue] = []
            try elements(until: "]") { values.append(try $0.propertyListValue(depth: depth + 1)) }
            return .array(values)
        case .mark("{"):
            var values: [String: PropertyListValue] = [:]
            try elements(until: "}") {
                let key = try $0.text()
                try $0.require(":", "after a key")
                values[key] = try $0.propertyListValue(depth: depth + 1)
            }
            return .dictionary(values)
        case .word("data"):
            try lexer.advance()
            guard case .binary(let data) = try value(of: .binary) else { break }
            return .data(data)
        case .word("date"):
            try lexer.advance()
            guard case .date(let date) = try value(of: .date) else { break }
            return .date(date)
        case .word(let word):
            let value: PropertyListValue? =
                switch word {
                case "true": .boolean(true)
                case "false": .boolean(false)
                default: Int64(word).map { .integer($0) } ?? Double(word).map { .real($0) }
                }
            guard let value else { break }
            try lexer.advance()
            return value
        default: break
        }
        throw lexer.error("\(found) is not a value; put text in quotation marks.")
    }

    private mutating func elements(
        until end: Unicode.Scalar, _ element: (inout Self) throws -> Void
    ) throws {
        try lexer.advance()
        try skipLineEnds()
        while token != .mark(end) {
            try element(&self)
            try skipLineEnds()
            if try !take(",") { break }
        }
        try require(end, "at the end of the values")
    }

    // MARK: - Tokens

    private func following() throws -> ModelTextLexer.Token {
        var ahead = lexer
        try ahead.advance()
        return ahead.token
    }

    /// Takes a mark if it is the current token. A line continues after a comma.
    private mutating func take(_ mark: Unicode.Scalar) throws -> Bool {
        guard token == .mark(mark) else { return false }
        try lexer.advance()
        if mark == "," { try skipLineEnds() }
        return true
    }

    mutating func takeWord(_ word: String) throws -> Bool {
        guard token == .word(word) else { return false }
        try lexer.advance()
        return true
    }

    mutating func require(_ mark: Unicode.Scalar, _ place: String) throws {
        if try !take(mark) {
            throw lexer.error("\(found) is unexpected; “\(mark)” is expected \(place).")
        }
    }

    private mutating func skipLineEnds() throws {
        while token == .lineEnd { try lexer.advance() }
    }

    /// Checks that nothing follows.
    mutating func requireEnd() throws {
        try skipLineEnds()
        if token != .end { throw lexer.error("\(found) is unexpected.") }
    }

    private func requireLineEnd() throws {
        if token == .lineEnd || token == .end { return }
        throw lexer.error("\(found) is unexpected; separate options with commas.")
    }

    /// The current token in a message.
    private var found: String {
        switch token {
        case .word(let text), .quoted(let text):
            "“\(TerminalText.line(text.count > 60 ? text.prefix(57) + "…" : text))”"
        case .mark(let mark): "“\(mark)”"
        case .arrow(let isToMany): isToMany ? "“->>”" : "“->”"
        case .lineEnd: "The end of the line"
        case .end: "The end of the text"
        }
    }

    private func unknown(_ noun: String, _ names: [String]) -> QuireError {
        guard case .word(let word) = token else {
            return lexer.error("\(found) is unexpected; \(noun) is expected here.")
        }
        return lexer.error(
            "\(found) is not \(noun); "
                + CloseNames.advice(for: word, among: names, "the choices are"))
    }
}
