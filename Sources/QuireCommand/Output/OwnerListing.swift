import QuireDocuments

/// Who has a document open, as the command prints it.
enum OwnerListing {
    /// “process 12 (quire) on host”.
    static func text(_ owner: DocumentOwner) -> String {
        var text = owner.processIdentifier.map { "process \($0)" } ?? "somebody"
        if let name = owner.processName { text += " (\(name))" }
        if let host = owner.hostName { text += " on \(host)" }
        if let since = owner.since { text += " since \(DateText.text(since))" }
        return text
    }

    static func json(_ owner: DocumentOwner?) -> JSONValue {
        guard let owner else { return .null }
        return .object([
            "process": owner.processIdentifier.map { .integer(Int64($0)) } ?? .null,
            "name": JSONValue(owner.processName), "host": JSONValue(owner.hostName),
            "since": DateText.json(owner.since),
        ])
    }
}
