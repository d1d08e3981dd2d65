import Foundation
internal import QuireModel
internal import QuireSystem

/// A decoder of a model that is a keyed archive. Unsupported parts are dropped with a remark.
protocol ModelArchiveDecoder {
    var archive: KeyedArchive { get }
    /// Messages about dropped parts.
    var remarks: [String] { get set }
    /// The remaining number of parts that may be read.
    var budget: Int { get set }

    init(_ archive: KeyedArchive)

    mutating func model() throws -> ManagedObjectModel

    /// The name in a list of names.
    func name(_ value: ArchiveValue) throws -> String
}

extension ModelArchiveDecoder {
    /// Decodes a model.
    ///
    /// - Parameters:
    ///   - data: The archive.
    ///   - name: The archive's name in errors.
    /// - Throws: ``QuireError`` with code `invalidFormat`.
    static func read(_ data: Data, name: String) throws -> ModelFile.Reading {
        var decoder = Self(try KeyedArchive(data, name: name))
        var model = try decoder.model()
        model.remarks = decoder.remarks
        model.leaveOutContradictoryParts()
        return (model, model.remarks)
    }

    /// Counts parts against the budget, so that shared objects do not expand a small archive to a large model.
    mutating func spend(_ count: Int = 1) throws {
        budget -= count
        if budget < 0 { throw archive.damaged("parts of the model share their parts") }
    }

    func required<T>(_ value: T?, _ wanted: String) throws -> T {
        guard let value else { throw archive.unexpected(wanted) }
        return value
    }

    /// Lists of names.
    ///
    /// - Parameter subject: The list's name in remarks.
    mutating func names(in value: ArchiveValue?, _ subject: String) throws -> [[String]] {
        var result: [[String]] = []
        for list in try archive.list(value) ?? [] {
            do { result.append(try (archive.list(list) ?? []).map(name)) } catch {
                remarks.append("\(subject) is omitted: \(error)")
            }
        }
        return result
    }
}
