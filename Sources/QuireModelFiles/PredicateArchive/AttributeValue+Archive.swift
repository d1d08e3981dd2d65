import Foundation
package import QuireModel

extension AttributeValue {
    /// The value that an archive holds.
    package init(_ scalar: KeyedArchive.Scalar?) {
        switch scalar {
        case nil, .null?: self = .null
        case .boolean(let truth)?: self = .boolean(truth)
        case .integer(let number)?: self = .integer(number)
        case .real(let number)?: self = .double(number)
        case .decimal(let number)?: self = .decimal(number)
        case .string(let text)?: self = .string(text)
        case .date(let date)?: self = .date(date)
        case .data(let data)?: self = .binary(data)
        case .uuid(let uuid)?: self = .uuid(uuid)
        case .url(let url)?: self = .uri(url)
        }
    }
}

extension KeyedArchive.Scalar {
    /// What an archive holds for a value; `nil` for composites and objects, which are no single values there.
    init?(_ value: AttributeValue) {
        switch value {
        case .null: self = .null
        case .boolean(let truth): self = .boolean(truth)
        case .integer(let number): self = .integer(number)
        case .double(let number): self = .real(number)
        case .decimal(let number): self = .decimal(number)
        case .string(let text): self = .string(text)
        case .date(let date): self = .date(date)
        case .binary(let data): self = .data(data)
        case .external(let value):
            guard let data = try? value.data() else { return nil }
            self = .data(data)
        case .uuid(let uuid): self = .uuid(uuid)
        case .uri(let url): self = .url(url)
        case .objectID, .composite: return nil
        }
    }
}
