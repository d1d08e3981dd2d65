import Foundation
internal import QuireSystem

/// Model files have texts only in their free keys and values. Another value is kept under `quire.userInfo.KEY`: as a binary
/// property list in base64.
extension [String: PropertyListValue] {
    private static var keyPrefix: String { "quire.userInfo." }

    /// The entries of a model file that say the same.
    var modelXMLEntries: [String: String] {
        var entries: [String: String] = [:]
        for (key, value) in self {
            if case .string(let text) = value, !key.hasPrefix(Self.keyPrefix) {
                entries[key] = text
            } else {
                entries[Self.keyPrefix + key] =
                    BinaryPropertyListWriter.data(of: value.archiveValue).base64EncodedString()
            }
        }
        return entries
    }

    /// What the entries of a model file say.
    init(modelXMLEntries entries: [String: String]) {
        self.init(minimumCapacity: entries.count)
        for (key, text) in entries {
            if key.hasPrefix(Self.keyPrefix), let value = Self.value(text) {
                self[String(key.dropFirst(Self.keyPrefix.count))] = value
            } else {
                self[key] = .string(text)
            }
        }
    }

    private static func value(_ text: String) -> PropertyListValue? {
        guard let data = Data(base64Encoded: text),
            var reader = try? BinaryPropertyListReader(data, name: ""),
            let value = try? reader.value()
        else { return nil }
        return PropertyListValue(value)
    }
}
