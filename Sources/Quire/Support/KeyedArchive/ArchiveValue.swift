import Foundation

/// A value in a binary property list, as keyed archives use them.
indirect enum ArchiveValue: Sendable, Hashable {
    case boolean(Bool)
    case integer(Int64)
    case real(Double)
    /// Seconds since 2001.
    case date(Double)
    case data(Data)
    case string(String)
    case array([ArchiveValue])
    case dictionary([Entry])
    /// The number of an object in a keyed archive; 0 stands for no object.
    case reference(Int)

    /// A key of a dictionary with its value.
    struct Entry: Sendable, Hashable {
        var key: String
        var value: ArchiveValue

        init(_ key: String, _ value: ArchiveValue) {
            self.key = key
            self.value = value
        }
    }

    /// No object.
    static var null: ArchiveValue { .reference(0) }

    /// The value of a key, if it is a dictionary that has it.
    subscript(key: String) -> ArchiveValue? {
        guard case .dictionary(let entries) = self else { return nil }
        return entries.first { $0.key == key }?.value
    }
}
