package import Foundation
internal import QuireModel
internal import QuireStore
internal import QuireSystem

/// Reads the elements of an XML store.
///
/// Core Data writes `databaseInfo` first, and an identifier for each object; there are stores without, which are read too.
package final class XMLStoreReader {
    private var parser: XMLStoreParser
    private let data: Data
    private let path: String
    /// Whether there are objects before the head.
    private var hasEarlyObjects = false
    /// The highest identifier so far.
    private var greatestKey: Int64 = 0

    /// What precedes the objects.
    package struct Head {
        var metadata: StoreMetadata
        /// The highest identifier that an object has had, if the file says so.
        var greatestKey: Int64?
    }

    /// A relationship as an object has it.
    package struct Relation {
        package let name: String
        let type: String
        let destination: String
        package let keys: [Int64]
    }

    /// An object as it is written.
    package struct Object {
        package let type: String
        /// Its identifier's number; 0 if it has none in the file.
        package var key: Int64
        package var attributes: [(name: String, type: String, text: String)] = []
        package var relationships: [Relation] = []
    }

    package init(_ data: Data, path: String) throws {
        parser = try XMLStoreParser(data, path: path)
        self.data = data
        self.path = path
    }

    /// Reads the head. Call it first.
    package func head() throws -> Head {
        while let event = try parser.next() {
            guard case .start(let name) = event else { continue }
            guard name == "database" else {
                throw parser.error("it begins with “\(name)” rather than “database”")
            }
            let head = try info()
            greatestKey = max(XMLStore.firstPrimaryKey - 1, head.greatestKey ?? 0)
            return head
        }
        throw parser.error("there is no element in it")
    }

    private func info() throws -> Head {
        var head: Head?
        while let event = try parser.next() {
            switch event {
            case .text: continue
            case .end: throw parser.error("it says nothing of itself")
            case .start("databaseInfo"): head = try databaseInfo()
            case .start("object"):
                hasEarlyObjects = true
                try parser.skipElement()
            case .start(let name): throw parser.error("“\(name)” comes before “databaseInfo”")
            }
            if let head { return head }
        }
        throw parser.error("it ends too early")
    }

    private func databaseInfo() throws -> Head {
        var uuid = ""
        var next: Int64?
        var values: [String: PropertyListValue] = [:]
        try parser.forEachElement { name in
            switch name {
            case "UUID":
                uuid = try parser.textOfElement().trimmingCharacters(in: .whitespacesAndNewlines)
            case "nextObjectID":
                next = Int64(
                    try parser.textOfElement().trimmingCharacters(in: .whitespacesAndNewlines))
            case "metadata":
                try parser.forEachElement { name in
                    guard name == "plist" else { return try parser.skipElement() }
                    try parser.forEachElement { name in
                        guard case .dictionary(let found) = try XMLPropertyList.read(name, parser)
                        else { throw parser.error("the metadata is no dictionary") }
                        values = found
                    }
                }
            default: try parser.skipElement()
            }
        }
        guard !uuid.isEmpty, !uuid.contains("/"), uuid.utf8.count <= 255 else {
            throw parser.error("it has no UUID")
        }
        values[StoreMetadata.Key.storeType] = .string(StoreType.xml.rawValue)
        return Head(
            metadata: StoreMetadata(storeUUID: uuid.uppercased(), values: values),
            greatestKey: next)
    }

    /// Calls a closure with each object. Call it after ``head()``.
    ///
    /// Objects without an identifier come last, and get those after the highest there is, in their order: the same
    /// whenever the file is read.
    package func forEachObject(_ body: (Object) throws -> Void) throws {
        if hasEarlyObjects {
            parser = try XMLStoreParser(data, path: path)
            while let event = try parser.next() { if case .start = event { break } }
        }
        var unnumbered: [Object] = []
        try parser.forEachElement { name in
            guard name == "object" else { return try parser.skipElement() }
            let object = try object()
            greatestKey = max(greatestKey, object.key)
            if object.key == 0 { unnumbered.append(object) } else { try body(object) }
        }
        for var object in unnumbered {
            guard greatestKey < ManagedObjectID.greatestPrimaryKey else {
                throw parser.error("there is no number left for an object without an identifier")
            }
            greatestKey += 1
            object.key = greatestKey
            try body(object)
        }
    }

    private func object() throws -> Object {
        guard let type = parser.attribute("type") else {
            throw parser.error("there is an object without a type")
        }
        let id = parser.attribute("id") ?? ""
        guard let key = id.isEmpty ? 0 : Self.key(id) else {
            throw parser.error(
                "there is an object of type \(type) with the identifier “\(id.prefix(40))”, which is none"
            )
        }
        var object = Object(type: type, key: key)
        try parser.forEachElement { element in
            switch element {
            case "attribute":
                let name = try requireName("an attribute", of: object)
                let type = parser.attribute("type") ?? ""
                object.attributes.append((name, type, try parser.textOfElement()))
            case "relationship":
                object.relationships.append(try relation(of: object))
            default: try parser.skipElement()
            }
        }
        return object
    }

    private func relation(of object: Object) throws -> Relation {
        let name = try requireName("a relationship", of: object)
        let type = parser.attribute("type") ?? ""
        let destination = parser.attribute("destination") ?? ""
        var keys: [Int64] = []
        for text in (parser.attribute("idrefs") ?? "").split(separator: " ") {
            guard let key = Self.key(text) else {
                throw parser.error(
                    "“\(name)” leads to “\(text.prefix(40))”, which is no identifier")
            }
            keys.append(key)
        }
        try parser.skipElement()
        return Relation(name: name, type: type, destination: destination, keys: keys)
    }

    private func requireName(_ what: String, of object: Object) throws -> String {
        guard let name = parser.attribute("name"), !name.isEmpty else {
            throw parser.error("the object z\(object.key) has \(what) without a name")
        }
        return name
    }

    /// The primary key of an identifier such as `z102`.
    private static func key(_ text: some StringProtocol) -> Int64? {
        guard text.hasPrefix("z"), let key = Int64(text.dropFirst()), key > 0,
            key <= ManagedObjectID.greatestPrimaryKey
        else { return nil }
        return key
    }
}
