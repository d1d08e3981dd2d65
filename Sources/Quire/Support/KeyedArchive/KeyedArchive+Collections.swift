import Foundation

/// The collections of Foundation's classes in an archive.
extension KeyedArchive {
    /// The elements of an array, a set or an ordered set, of whatever class.
    func list(_ value: ArchiveValue?) throws -> [ArchiveValue]? {
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
    func dictionary(_ value: ArchiveValue?) throws -> [(key: ArchiveValue, value: ArchiveValue)]? {
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

    /// A value made of collections, numbers, texts, dates and data, for `PropertyListSerialization`.
    ///
    /// What a property list cannot hold is given as it would be written: UUIDs and URLs as texts, decimal numbers as
    /// floating-point numbers; `NSNull` is left out.
    func propertyList(_ value: ArchiveValue?) throws -> Any? {
        var budget = max(objectCount * 4, 4096)
        return try propertyList(value, depth: 0, budget: &budget)
    }

    private func propertyList(
        _ value: ArchiveValue?, depth: Int, budget: inout Int
    ) throws -> Any? {
        budget -= 1
        guard depth < BinaryPropertyListReader.greatestDepth, budget > 0 else {
            throw damaged("its values are nested too deeply")
        }
        guard let found = try resolved(value) else { return nil }
        if case .array = found { return try array(value, depth: depth, budget: &budget) }
        if let object = try objectIfAny(value) {
            if object.classNames.contains("NSDictionary") {
                var result: [String: Any] = [:]
                for (name, value) in try namedValues(value) ?? [:] {
                    result[name] = try propertyList(value, depth: depth + 1, budget: &budget)
                }
                return result
            }
            if object.classNames.contains(where: { ["NSArray", "NSSet"].contains($0) }) {
                return try array(value, depth: depth, budget: &budget)
            }
        }
        switch try scalar(value) {
        case nil, .null?: return nil
        case .boolean(let truth)?: return truth
        case .integer(let number)?: return number
        case .real(let number)?: return number
        case .decimal(let number)?: return NSDecimalNumber(decimal: number).doubleValue
        case .string(let text)?: return text
        case .date(let date)?: return date
        case .data(let data)?: return data
        case .uuid(let uuid)?: return uuid.uuidString
        case .url(let url)?: return url.absoluteString
        }
    }

    private func array(_ value: ArchiveValue?, depth: Int, budget: inout Int) throws -> [Any] {
        var result: [Any] = []
        for element in try list(value) ?? [] {
            if let element = try propertyList(element, depth: depth + 1, budget: &budget) {
                result.append(element)
            }
        }
        return result
    }
}
