package import Foundation
package import QuireModel
internal import QuireSystem

/// Stands in for a store's files where a context makes rows of what it has: it keeps the values that these rows refer to,
/// saved ones and others.
package final class HeldExternalData: ExternalDataReading {
    private let values = Lock<[String: ExternalData]>([:])

    package init() {}

    /// Keeps a value.
    ///
    /// - Returns: What is to be in the row.
    func hold(_ value: ExternalData) -> Data {
        let name = UUID().uuidString
        values.withLock { $0[name] = value }
        return Data([ExternalDataTag.external] + Array(name.utf8) + [0])
    }

    package func data(named name: String) throws -> Data { try externalData(named: name).data() }

    package func externalData(named name: String) throws -> ExternalData {
        guard let value = values.withLock({ $0[name] }) else {
            throw QuireError(.invalidFormat, "The row has no value in a file “\(name)”.")
        }
        return value
    }
}
