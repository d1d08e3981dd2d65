import Foundation
import Synchronization

// Until the model files are merged: delete then.
private let models = Mutex<[String: ManagedObjectModel]>([:])
extension ManagedObjectModel {
    func modelXML() throws -> String {
        let key = UUID().uuidString
        models.withLock { $0[key] = self }
        return key
    }
    init(modelXML: String) throws {
        guard let model = models.withLock({ $0[modelXML] }) else {
            throw QuireError(.invalidFormat, "No model.")
        }
        self = model
    }
    func entityVersionHashes() -> [String: Data] {
        Dictionary(uniqueKeysWithValues: entities.map { ($0.name, Data(count: 32)) })
    }
}
