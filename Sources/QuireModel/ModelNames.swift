/// Which names entities and properties may have.
package enum ModelNames {
    /// Names that Core Data forbids for properties, because its objects have methods of these names.
    package static let reservedPropertyNames: Set<String> = [
        "alloc", "autorelease", "class", "copy", "dealloc", "debugDescription", "description",
        "entity",
        "finalize", "hasChanges", "hash", "init", "isDeleted", "isFault", "isInserted", "isProxy",
        "isUpdated", "load", "managedObjectContext", "mutableCopy", "objectID", "observationInfo",
        "release", "retain", "retainCount", "self", "superclass", "zone",
    ]

    /// What is wrong with an entity's name, to follow the name in a sentence.
    package static func objection(toEntityName name: String) -> String? {
        if let reason = objection(toName: name) { return reason }
        // Core Data's own tables are called Z_…, and an entity's table is “Z” and its name.
        return name.hasPrefix("_") ? "begins with an underscore" : nil
    }

    /// What is wrong with a property's name, to follow the name in a sentence.
    package static func objection(toPropertyName name: String) -> String? {
        if let reason = objection(toName: name) { return reason }
        return reservedPropertyNames.contains(name)
            ? "is reserved: Core Data's objects have a method of that name" : nil
    }

    /// What is wrong with a name of any kind: it must be a letter or underscore and then letters, digits and
    /// underscores, because names become parts of key paths, predicates and column names.
    static func objection(toName name: String) -> String? {
        guard let first = name.unicodeScalars.first else { return "is empty" }
        guard first == "_" || first.properties.isXIDStart else {
            return "does not begin with a letter"
        }
        guard name.unicodeScalars.allSatisfy({ $0.properties.isXIDContinue }) else {
            return "contains characters other than letters, digits and underscores"
        }
        return name.utf8.count > 255 ? "is longer than 255 bytes" : nil
    }

    /// Whether a model file can hold a text: XML has no way to write most control characters.
    package static func isWritable(_ text: String) -> Bool {
        text.unicodeScalars.allSatisfy(isWritable)
    }

    /// Whether a model file can hold a character.
    package static func isWritable(_ character: Unicode.Scalar) -> Bool {
        switch character.value {
        case 0x09, 0x0A, 0x0D: true
        case 0..<0x20, 0xFFFE, 0xFFFF: false
        default: true
        }
    }
}
