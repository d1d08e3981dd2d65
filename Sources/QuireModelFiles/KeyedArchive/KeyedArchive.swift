package import Foundation
package import QuireSystem

/// An archive as Foundation's `NSKeyedArchiver` writes it: objects with classes and named fields, which refer to one
/// another.
///
/// ```swift
/// let archive = try KeyedArchive(data, name: path)
/// if let root = try archive.object(archive.top["root"]) {
///     print(root.className, try archive.string(root["NSEntityName"]) ?? "")
/// }
/// ```
///
/// No class is looked up and nothing is made: it is safe to read what anybody wrote. References may form cycles, which
/// whoever follows them has to expect. Every accessor gives `nil` for no object, and throws `invalidFormat` for one of
/// another kind than the one asked for.
package struct KeyedArchive: Sendable {
    /// An object with a class.
    package struct Object: Sendable {
        /// Its number in the archive: objects with the same number are the same.
        let number: Int
        /// The name of its class.
        package let className: String
        /// The names of its class and all it inherits from.
        let classNames: [String]
        /// Its fields in the order of the archive.
        fileprivate let entries: [ArchiveValue.Entry]

        /// The value of a field.
        package subscript(key: String) -> ArchiveValue? {
            entries.first { $0.key == key }?.value
        }

        /// The values of the fields that are called `prefix` and a number, from 0 on.
        func numberedFields(_ prefix: String) -> [ArchiveValue] {
            var fields: [String: ArchiveValue] = [:]
            for entry in entries where entry.key.hasPrefix(prefix) {
                fields[entry.key] = entry.value
            }
            var result: [ArchiveValue] = []
            while let value = fields[prefix + String(result.count)] { result.append(value) }
            return result
        }

        /// The names of its fields.
        var keys: [String] { entries.map(\.key).filter { $0 != KeyedArchive.classKey } }
    }

    /// What the archive was made of, by name; usually one object called `root`.
    package let top: [String: ArchiveValue]
    /// What errors call the archive.
    package let name: String
    private let objects: [ArchiveValue]
    /// The names of a class and its superclasses by the number of what describes it.
    private let classes: [Int: [String]]

    /// The number of objects, plain values among them.
    var objectCount: Int { objects.count }

    static let objectsKey = "$objects"
    static let topKey = "$top"
    static let classKey = "$class"
    static let classNameKey = "$classname"
    static let classesKey = "$classes"

    /// Reads an archive.
    ///
    /// - Parameters:
    ///   - data: A binary property list.
    ///   - name: What an error calls it.
    /// - Throws: ``QuireError`` with code `invalidFormat`.
    package init(_ data: Data, name: String) throws {
        self.name = name
        var reader = try BinaryPropertyListReader(data, name: name)
        let list = try reader.value()
        guard case .array(let objects)? = list[Self.objectsKey],
            case .dictionary(let top)? = list[Self.topKey]
        else {
            throw BinaryPropertyListReader.damaged(name, "it is no keyed archive")
        }
        self.objects = objects
        classes = Self.classes(of: objects)
        self.top = Dictionary(top.map { ($0.key, $0.value) }, uniquingKeysWith: { $1 })
    }

    /// The value that an inline value or a reference stands for; `nil` for no object.
    func resolved(_ value: ArchiveValue?) throws -> ArchiveValue? {
        guard case .reference(let number)? = value else { return value }
        if number == 0 { return nil }
        guard number < objects.count else {
            throw damaged("it refers to an object that is not there")
        }
        let object = objects[number]
        if case .reference(let other) = object {
            if other == 0 { return nil }
            throw damaged("a reference leads to a reference")
        }
        return object
    }

    /// The object with a class that a value refers to.
    package func object(_ value: ArchiveValue?) throws -> Object? {
        guard let found = try resolved(value) else { return nil }
        guard case .reference(let number)? = value, let object = try object(number, found) else {
            throw damaged("there is a plain value where an object should be")
        }
        return object
    }

    /// The object with a class that a value refers to; `nil` if it is a plain value.
    package func objectIfAny(_ value: ArchiveValue?) throws -> Object? {
        guard let found = try resolved(value), case .reference(let number)? = value else {
            return nil
        }
        return try object(number, found)
    }

    private func object(_ number: Int, _ value: ArchiveValue) throws -> Object? {
        guard case .dictionary(let entries) = value,
            let reference = entries.first(where: { $0.key == Self.classKey })?.value
        else { return nil }
        guard case .reference(let place) = reference, let names = classes[place] else {
            throw damaged("an object has no class")
        }
        return Object(number: number, className: names[0], classNames: names, entries: entries)
    }

    private static func classes(of objects: [ArchiveValue]) -> [Int: [String]] {
        var classes: [Int: [String]] = [:]
        for (number, object) in objects.enumerated() {
            guard case .string(let name)? = object[classNameKey] else { continue }
            var names = [name]
            if case .array(let list)? = object[classesKey] {
                for case .string(let other) in list where other != name { names.append(other) }
            }
            classes[number] = names
        }
        return classes
    }

    /// An error about the archive: `reason` is a clause that says what is wrong.
    package func damaged(_ reason: String) -> QuireError {
        BinaryPropertyListReader.damaged(name, reason)
    }
}
