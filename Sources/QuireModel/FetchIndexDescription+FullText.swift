/// Model files have no place for full-text indexes but the free keys and values of an entity: `quire.fullText.NAME`, with
/// the names of the attributes, separated by commas.
extension [FetchIndexDescription] {
    private static var keyPrefix: String { "quire.fullText." }

    /// The entries that say the same in a model file.
    package var fullTextEntries: [String: String] {
        var entries: [String: String] = [:]
        for index in self where index.isFullText {
            entries[Self.keyPrefix + index.name] =
                index.elements.compactMap(\.propertyName).joined(separator: ",")
        }
        return entries
    }

    /// Takes the full-text indexes out of the entries of a model file.
    package init(takingFullTextFrom userInfo: inout [String: String]) {
        self.init()
        for key in userInfo.keys.sorted() where key.hasPrefix(Self.keyPrefix) {
            guard let names = userInfo.removeValue(forKey: key) else { continue }
            append(
                FetchIndexDescription(
                    name: String(key.dropFirst(Self.keyPrefix.count)),
                    elements: names.split(separator: ",", omittingEmptySubsequences: false).map {
                        var element = FetchIndexDescription.Element(propertyName: String($0))
                        element.kind = .fullText
                        return element
                    }))
        }
    }
}

extension FetchIndexDescription {
    /// Whether it is an index of words.
    package var isFullText: Bool { elements.first?.kind == .fullText }
}
