import ArgumentParser
import Foundation
import Quire

/// `key=value` on the command line. To-many relationships also take `+key=value` and `-key=value`, or `key+=value` and
/// `key-=value`.
struct Assignment: Equatable {
    /// The effect of an assignment.
    enum Action: String {
        case set = ""
        case add = "+"
        case remove = "-"
    }

    var action = Action.set
    /// The property's name, the dotted name of an element of a composite attribute, or the path to an attribute of a
    /// related object.
    var key: String
    /// The text to the right of the first `=`.
    var text: String

    /// Whether a word is meant as an assignment. Identifiers and entity names hold no `=`.
    static func isOne(_ word: String) -> Bool { word.contains("=") }

    /// Reads a word.
    ///
    /// - Throws: `ValidationError`, a usage error.
    init(_ word: String) throws {
        guard let mark = word.firstIndex(of: "="), mark != word.startIndex else {
            throw ValidationError("“\(word)” is not an assignment; write key=value.")
        }
        key = String(word[..<mark])
        text = String(word[word.index(after: mark)...])
        guard let sign = [Action.add, .remove].first(where: { isMarked($0.rawValue) }) else {
            return
        }
        action = sign
        key = key.hasPrefix(sign.rawValue) ? String(key.dropFirst()) : String(key.dropLast())
    }

    private func isMarked(_ sign: String) -> Bool { key.hasPrefix(sign) || key.hasSuffix(sign) }

    /// Words of a command line, in which the parser does not take `-tags=…` for options.
    static func withoutLeadingDashes(_ words: [String]) -> [String] {
        guard words.first == SetVerb.name else { return words }
        return words.map { word in
            let name = word.prefix { $0 != "=" }
            guard name != word, name.wholeMatch(of: /-[^\W\d][\w.]+/) != nil else { return word }
            return name.dropFirst() + "-" + word[name.endIndex...]
        }
    }

    /// Throws a usage error if spaces have made three words of an assignment.
    static func checkSpaces(_ words: [String]) throws {
        guard let mark = words.firstIndex(of: "="), mark > 0, mark + 1 < words.count else { return }
        throw ValidationError(
            "Write assignments without spaces: \(words[mark - 1])=\(words[mark + 1]).")
    }

    /// Reads words, each of which is an assignment of another key, but for paths to attributes of related objects, because
    /// each value names one object.
    ///
    /// - Throws: `ValidationError`, a usage error.
    static func all(_ words: [String]) throws -> [Assignment] {
        var known: Set<String> = []
        return try words.map { word in
            let assignment = try Assignment(word)
            let key = assignment.action.rawValue + assignment.key
            guard known.insert(key).inserted || key.contains(".") else {
                throw ValidationError("“\(assignment.key)” is specified twice.")
            }
            return assignment
        }
    }

    /// The value of the text: null, a file's content, or itself. `@@` at the start is one `@`.
    enum Source: Equatable {
        case none
        case file(String)
        case text(String)
    }

    /// The value of the text.
    var source: Source {
        if text.isEmpty { return .none }
        if text.hasPrefix("@@") { return .text(String(text.dropFirst())) }
        if text.hasPrefix("@") { return .file(String(text.dropFirst())) }
        return .text(text)
    }
}

// MARK: - Values

extension Assignment {
    /// The text as the value of an attribute of an entity.
    ///
    /// - Throws: `QuireError` with code `invalidValue` or `notFound`.
    func value(of attribute: AttributeDescription, in entity: ResolvedEntity) throws
        -> AttributeValue
    {
        switch source {
        case .none: return .null
        case .text(let text): return try parse(text, attribute, in: entity)
        case .file(let path):
            let data = try InputFile.read(path)
            if attribute.type == .binary || attribute.type == .transformable {
                return .binary(data)
            }
            guard let text = String(data: data, encoding: .utf8) else {
                throw QuireError(
                    .invalidValue,
                    "The file “\(path)” for \(entity.name).\(key) is not UTF-8 text.",
                    entity: entity.name, property: key, file: path)
            }
            if attribute.type == .string { return .string(text) }
            return try parse(
                text.trimmingCharacters(in: .whitespacesAndNewlines), attribute, in: entity)
        }
    }

    private func parse(
        _ text: String, _ attribute: AttributeDescription, in entity: ResolvedEntity
    ) throws -> AttributeValue {
        do {
            return try AttributeValue(parsing: text, as: attribute.type)
        } catch var error as QuireError {
            error.message = "\(entity.name).\(key): \(error.message)"
            error.subject.property = attribute.name
            throw error
        }
    }

    /// The text as identifiers of objects, separated by commas.
    func identifiers() throws -> String {
        switch source {
        case .none: ""
        case .text(let text): text
        case .file(let path): String(decoding: try InputFile.read(path), as: UTF8.self)
        }
    }

    /// The expression that computes a number or a date, such as `price*1.1`; `nil` if the text is a value, or if it neither
    /// names a property nor calls a function.
    ///
    /// - Throws: `QuireError` with code `invalidQuery`.
    func expression(
        for attribute: AttributeDescription, of entity: ResolvedEntity
    ) throws -> QueryExpression? {
        guard case .text(let text) = source, attribute.type.isNumber || attribute.type == .date,
            (try? AttributeValue(parsing: text, as: attribute.type)) == nil
        else { return nil }
        let computes = text.matches(of: /([^\W\d]\w*)(\()?/).contains {
            $0.2 != nil || entity.properties[String($0.1)] != nil
        }
        return computes ? try QueryExpression(format: text) : nil
    }
}
