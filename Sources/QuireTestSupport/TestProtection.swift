import Foundation
public import Quire

/// The protection of what tests make without asking for a class: that of the environment's `QUIRE_TEST_PROTECTION`, so that
/// suites run with protected documents as they do with others. The programs that tests start unlock the same domain.
public enum TestProtection {
    /// The class; `none` if the environment names none.
    public static let fileProtection: FileProtection = {
        let environment = ProcessInfo.processInfo.environment
        guard let name = environment["QUIRE_TEST_PROTECTION"] else { return .none }
        guard let fileProtection = FileProtection(rawValue: name), fileProtection != .none else {
            fatalError("QUIRE_TEST_PROTECTION=\(name): there is no such class.")
        }
        do {
            let folder = FileManager.default.temporaryDirectory
                .appendingPathComponent("quire-test-keys-\(UUID().uuidString)").path
            try FileManager.default.createDirectory(
                atPath: folder, withIntermediateDirectories: true)
            try ProtectionDomain.makeKeyFile(at: folder + "/key")
            ProtectionDomain.default = try ProtectionDomain.setUp(
                at: folder + "/keybag", keyFile: folder + "/key", fileProtection: fileProtection)
            setenv(folderKey, folder, 1)
            atexit {
                let folder = ProcessInfo.processInfo.environment[TestProtection.folderKey]
                if let folder { try? FileManager.default.removeItem(atPath: folder) }
            }
        } catch {
            fatalError("QUIRE_TEST_PROTECTION: \(error)")
        }
        return fileProtection
    }()

    /// The variable that names the folder of the keys to programs that tests start.
    private static let folderKey = "QUIRE_TEST_PROTECTION_FOLDER"

    /// Whether what tests make is protected.
    public static var isOn: Bool { fileProtection != .none }
}
