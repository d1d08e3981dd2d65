import Foundation

/// The compiler that built the tests, to be run on code that was generated.
enum SwiftCompiler {
    /// What code needs to import the modules that were built.
    static var importing: String {
        let built = Checkout.builtProducts
        let maps = [
            built + "/CLinux.build/module.modulemap", built + "/CTemplates.build/module.modulemap",
            Checkout.path + "/Sources/CSQLite/module.modulemap",
            Checkout.path + "/Sources/CLibXML2/module.modulemap",
            Checkout.path + "/Sources/CZLib/module.modulemap",
            Checkout.path + "/Sources/CArchive/module.modulemap",
        ]
        let flags =
            ["-swift-version", "6", "-wmo", "-suppress-warnings", "-I", built + "/Modules"]
            + ["-Xcc", "-I/usr/include/libxml2"]
            + maps.flatMap { ["-Xcc", "-fmodule-map-file=" + $0] } + macros
        return flags.map(quoted).joined(separator: " ")
    }

    /// What code needs to expand the macros of QuireMacros.
    private static var macros: [String] {
        let built = Checkout.builtProducts
        // Macros are built for the machine that builds, which has a suffix of its own.
        let plugin = ["QuireMacrosPlugin-tool", "QuireMacrosPlugin"].map { built + "/" + $0 }
            .first { FileManager.default.isExecutableFile(atPath: $0) }
        return plugin.map { ["-load-plugin-executable", $0 + "#QuireMacrosPlugin"] } ?? []
    }

    /// The object files of Quire and of all it needs, as one argument: those that README's example is linked of.
    static func linking(in folder: String) throws -> String {
        let list = try String(
            contentsOfFile: Checkout.builtProducts + "/ReadmeExample.product/Objects.LinkFileList",
            encoding: .utf8)
        let objects = list.split(separator: "\n").filter { !$0.contains("/ReadmeExample.build/") }
        let path = folder + "/objects.txt"
        try Data(objects.joined(separator: "\n").utf8).write(to: URL(fileURLWithPath: path))
        return "@\(quoted(path)) -lstdc++ -lsqlite3 -lxml2 -larchive"
    }

    /// An argument for the shell.
    static func quoted(_ text: String) -> String {
        "'" + text.replacing("'", with: "'\\''") + "'"
    }
}
