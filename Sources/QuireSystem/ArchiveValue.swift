package import Foundation

/// A value in a binary property list, as keyed archives use them.
package indirect enum ArchiveValue: Sendable, Hashable {
    case boolean(Bool)
    case integer(Int64)
    case real(Double)
    /// Seconds since 2001.
    case date(Double)
    case data(Data)
    case string(String)
    case array([ArchiveValue])
    case dictionary([Entry])
    /// The index of an object in a keyed archive; 0 is the null object.
    case reference(Int)

    /// A key of a dictionary with its value.
    package struct Entry: Sendable, Hashable {
        package var key: String
        package var value: ArchiveValue

        package init(_ key: String, _ value: ArchiveValue) {
            self.key = key
            self.value = value
        }
    }

    /// No object.
    package static var null: ArchiveValue { .reference(0) }

    /// The value of a key, if it is a dictionary that has it.
    package subscript(key: String) -> ArchiveValue? {
        guard case .dictionary(let entries) = self else { return nil }
        return entries.first { $0.key == key }?.value
    }
}

// MARK: - Property lists

extension PropertyListValue {
    /// The value as binary property lists have it, with keys in order.
    package var archiveValue: ArchiveValue {
        switch self {
        case .string(let text): .string(text)
        case .integer(let number): .integer(number)
        case .real(let number): .real(number)
        case .boolean(let truth): .boolean(truth)
        case .data(let data): .data(data)
        case .date(let date): .date(date.timeIntervalSinceReferenceDate)
        case .array(let values): .array(values.map(\.archiveValue))
        case .dictionary(let values):
            .dictionary(
                values.sorted { $0.key < $1.key }.map { .init($0.key, $0.value.archiveValue) })
        }
    }

    /// The equivalent binary property list value; `nil` if the value contains a reference.
    package init?(_ value: ArchiveValue) {
        switch value {
        case .string(let text): self = .string(text)
        case .integer(let number): self = .integer(number)
        case .real(let number): self = .real(number)
        case .boolean(let truth): self = .boolean(truth)
        case .data(let data): self = .data(data)
        case .date(let seconds): self = .date(Date(timeIntervalSinceReferenceDate: seconds))
        case .array(let elements):
            var values: [PropertyListValue] = []
            for element in elements {
                guard let value = Self(element) else { return nil }
                values.append(value)
            }
            self = .array(values)
        case .dictionary(let entries):
            var values: [String: PropertyListValue] = [:]
            for entry in entries {
                guard let value = Self(entry.value) else { return nil }
                values[entry.key] = value
            }
            self = .dictionary(values)
        case .reference: return nil
        }
    }
}
