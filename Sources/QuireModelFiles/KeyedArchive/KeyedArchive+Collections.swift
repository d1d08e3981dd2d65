import Foundation
package import QuireSystem

/// The collections of Foundation's classes in an archive.
extension KeyedArchive {
    /// The elements of an array, a set or an ordered set, of whatever class.
    package func list(_ value: ArchiveValue?) throws -> [ArchiveValue]? {
        guard let found = try resolved(value) else { return nil }
        if case .array(let elements) = found { return elements }
        guard let object = try object(value) else { return nil }
        guard case .array(let elements)? = object["NS.objects"] else {
            guard
                object.classNames.contains(where: {
                    ["NSArray", "NSSet", "NSOrderedSet"].contains($0)
                })
            else { throw unexpected("a list") }
            return object.numberedFields("NS.object.")
        }
        return elements
    }

    /// The keys and values of a dictionary, of whatever class.
    package func dictionary(_ value: ArchiveValue?) throws -> [(
        key: ArchiveValue, value: ArchiveValue
    )]? {
        guard let object = try object(value) else { return nil }
        if case .array(let keys)? = object["NS.keys"],
            case .array(let values)? = object["NS.objects"], keys.count == values.count
        {
            return Array(zip(keys, values)).map { (key: $0, value: $1) }
        }
        if let mapping = try self.object(object["searchMapping"]),
            let keys = try list(mapping["keys"]), let values = try list(object["values"]),
            keys.count == values.count
        {
            // Core Data's dictionaries with a fixed set of keys.
            return Array(zip(keys, values)).map { (key: $0, value: $1) }
        }
        guard object.classNames.contains("NSDictionary"), object["NS.keys"] == nil else {
            throw unexpected("a dictionary")
        }
        return []
    }

    /// The values of a dictionary whose keys are texts.
    func namedValues(_ value: ArchiveValue?) throws -> [String: ArchiveValue]? {
        guard let pairs = try dictionary(value) else { return nil }
        var result: [String: ArchiveValue] = [:]
        result.reserveCapacity(pairs.count)
        for (key, value) in pairs {
            guard let name = try string(key) else { throw unexpected("a key") }
            result[name] = value
        }
        return result
    }

    /// A value made of collections, numbers, texts, dates and data.
    ///
    /// What a property list cannot hold is given as a text: UUIDs, URLs and decimal numbers; no value is an empty text.
    ///
    /// - Parameter budget: How many values may be read yet. Archives may name a value many times over.
    package func propertyList(
        _ value: ArchiveValue?, budget: inout Int, depth: Int = 0
    ) throws -> PropertyListValue {
        budget -= 1
        guard budget > 0, depth < PropertyListValue.greatestDepth else {
            throw damaged("its values are nested too deeply, or name each other too often")
        }
        if case .array? = try resolved(value) {
            return try array(value, budget: &budget, depth: depth)
        }
        if let object = try objectIfAny(value) {
            if object.classNames.contains("NSDictionary") {
                var result: [String: PropertyListValue] = [:]
                for (key, value) in try dictionary(value) ?? [] {
                    guard let name = try string(key) else { continue }
                    result[name] = try propertyList(value, budget: &budget, depth: depth + 1)
                }
                return .dictionary(result)
            }
            if object.classNames.contains(where: { ["NSArray", "NSSet"].contains($0) }) {
                return try array(value, budget: &budget, depth: depth)
            }
        }
        switch try scalar(value) {
        case nil, .null?: return .string("")
        case .boolean(let truth)?: return .boolean(truth)
        case .integer(let number)?: return .integer(number)
        case .real(let number)?: return .real(number)
        case .decimal(let number)?: return .string(number.description)
        case .string(let text)?: return .string(text)
        case .date(let date)?: return .date(date)
        case .data(let data)?: return .data(data)
        case .uuid(let uuid)?: return .string(uuid.uuidString)
        case .url(let url)?: return .string(url.absoluteString)
        }
    }

    private func array(
        _ value: ArchiveValue?, budget: inout Int, depth: Int
    ) throws -> PropertyListValue {
        .array(
            try (list(value) ?? []).map {
                try propertyList($0, budget: &budget, depth: depth + 1)
            })
    }
}
