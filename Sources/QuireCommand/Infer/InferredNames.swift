import Quire

/// Names of entities and properties, made from those of files, tables and columns.
///
/// Property names begin with a lower-case letter and entity names are capitalized singulars, as in Xcode's models. A name that
/// Core Data reserves gets an underscore at its end.
enum InferredNames {
    /// The name of a property.
    static func property(_ text: String) -> String {
        let words = text.unicodeScalars.split { !$0.properties.isXIDContinue }
            .map { String(String.UnicodeScalarView($0)) }
        guard let first = words.first else { return "column" }
        var name = lowercasingStart(first) + words.dropFirst().map(capitalized).joined()
        if name.unicodeScalars.first.map({ $0 != "_" && !$0.properties.isXIDStart }) == true {
            name = "_" + name
        }
        name = shortened(name)
        return ModelNames.objection(toPropertyName: name) == nil ? name : name + "_"
    }

    /// The name of an entity.
    static func entity(_ text: String) -> String {
        let words = text.unicodeScalars
            .split { !$0.properties.isXIDContinue || $0 == "_" }
            .map { String(String.UnicodeScalarView($0)) }
            .map { $0.count > 1 && $0 == $0.uppercased() ? $0.lowercased() : $0 }
        guard let last = words.last else { return "Item" }
        let name = (words.dropLast() + [singular(last)]).map(capitalized).joined()
        let isValid = name.unicodeScalars.first?.properties.isXIDStart == true
        return shortened(isValid ? name : "Item" + name)
    }

    /// The name of a to-many relationship to an entity.
    static func plural(of entity: String) -> String {
        let name = lowercasingStart(entity)
        if name.hasSuffix("y"), let before = name.dropLast().last, !"aeiou".contains(before) {
            return name.dropLast() + "ies"
        }
        return name + (["s", "x", "ch", "sh"].contains(where: name.hasSuffix) ? "es" : "s")
    }

    /// The name of a relationship, made from the column of its foreign key: `author` from `author_id`.
    static func relationship(_ column: String, to entity: String) -> String {
        for ending in ["_id", "_ID", "Id", "ID", "_fk"]
        where column.hasSuffix(ending) && column.count > ending.count {
            return property(String(column.dropLast(ending.count)))
        }
        let key = column.lowercased().replacing("_", with: "")
        if key == "id" || key == entity.lowercased() + "id" { return lowercasingStart(entity) }
        return property(column)
    }

    /// The name without capitals at its start: `url`, `albumId`, `isbnNumber`.
    static func lowercasingStart(_ name: String) -> String {
        if name == name.uppercased() { return name.lowercased() }
        let capitals = name.prefix { $0.isUppercase }
        if capitals.count < 2 { return capitals.lowercased() + name.dropFirst(capitals.count) }
        return capitals.dropLast().lowercased() + name.dropFirst(capitals.count - 1)
    }

    private static func capitalized(_ word: String) -> String {
        word.prefix(1).uppercased() + word.dropFirst()
    }

    private static func singular(_ word: String) -> String {
        let lower = word.lowercased()
        if ["news", "series", "species", "status", "data"].contains(lower)
            || ["ss", "us", "is"].contains(where: lower.hasSuffix) || lower.count < 4
        {
            return word
        }
        if lower.hasSuffix("ies") { return word.dropLast(3) + "y" }
        if ["sses", "xes", "ches", "shes"].contains(where: lower.hasSuffix) {
            return String(word.dropLast(2))
        }
        return lower.hasSuffix("s") ? String(word.dropLast()) : word
    }

    /// The beginning of a name that is too long for a column.
    private static func shortened(_ name: String) -> String {
        var name = name
        while name.utf8.count > 200 { name.removeLast() }
        return name
    }
}
