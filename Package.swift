// swift-tools-version: 6.2
import CompilerPluginSupport
import Foundation
import PackageDescription

#if canImport(Glibc)
    import Glibc
#endif

// `.ci/run` sets this, so that our own warnings stop the build. Somebody who builds with a newer compiler,
// which may warn about more, is not stopped.
let warningsAreErrors = Context.environment["QUIRE_WARNINGS_AS_ERRORS"] == "1"

// `make test-threads` sets this: locks are then of a kind that the thread sanitizer knows, and of the tests only those
// of what several threads do at once are built.
let watchesThreads = Context.environment["QUIRE_THREAD_SANITIZER"] == "1"

// `make test-optimized` sets this: of the tests only those are built that use the library as programs do, because an optimised
// library has no `@testable`; without the situations, which take the optimizer many minutes.
let testsClients = Context.environment["QUIRE_CLIENT_TESTS"] == "1"

let settings: [SwiftSetting] =
    [
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("InternalImportsByDefault"),
        .enableUpcomingFeature("MemberImportVisibility"),
        .enableUpcomingFeature("InferIsolatedConformances"),
        .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    ] + (warningsAreErrors ? [.treatAllWarnings(as: .error)] : [])
    + (watchesThreads ? [.define("QUIRE_THREAD_SANITIZER")] : [])

// Macros are made with swift-syntax, whose release build takes minutes. The toolchain has it built, and links it in
// seconds, but by flags that SwiftPM refuses in a package somebody depends on. So the toolchain's is taken only where
// this package is the one being built, or is beside it: when the command was given in its folder or below.
// QUIRE_TOOLCHAIN_SYNTAX=1 takes it in any case, =0 never.
let toolchainSyntax: String? = {
    let directory = Context.packageDirectory
    let workingDirectory = Context.environment["PWD"] ?? ""
    let isOurs = workingDirectory == directory || workingDirectory.hasPrefix(directory + "/")
    guard (Context.environment["QUIRE_TOOLCHAIN_SYNTAX"] ?? (isOurs ? "1" : "0")) == "1" else {
        return nil
    }
    // The toolchain is the one whose PackageDescription this process has loaded. What dlopen gives is the loader's
    // `struct link_map`, whose second word is the library's path.
    let place = "/usr/lib/swift/pm/ManifestAPI/libPackageDescription.so"
    let library = dlopen("libPackageDescription.so", RTLD_LAZY | RTLD_NOLOAD)
    guard
        let name = library?.load(
            fromByteOffset: MemoryLayout<UInt>.size, as: UnsafePointer<CChar>?.self)
    else { return nil }
    let path = String(cString: name)
    guard path.hasSuffix(place) else { return nil }
    let host = path.dropLast(place.count) + "/usr/lib/swift/host"
    let exists = FileManager.default.fileExists(atPath: host + "/libSwiftSyntaxMacroExpansion.so")
    return exists ? String(host) : nil
}()

/// The modules of swift-syntax as products to depend on, unless they are the toolchain's.
func syntax(_ modules: String...) -> [Target.Dependency] {
    toolchainSyntax != nil
        ? [] : modules.map { .product(name: $0, package: "swift-syntax") }
}

let syntaxSettings: [SwiftSetting] =
    toolchainSyntax.map { [.define("TOOLCHAIN_SYNTAX"), .unsafeFlags(["-I", $0])] } ?? []

func syntaxLinking(_ modules: String...) -> [LinkerSetting] {
    toolchainSyntax.map { host in
        [
            .unsafeFlags(
                ["-L", host, "-Xlinker", "-rpath", "-Xlinker", host] + modules.map { "-l" + $0 })
        ]
    } ?? []
}

// ArgumentParser and Stencil are for the command only. Its trait is enabled where this package is the one being built: when
// the command was given in its folder or below, or outside of every package. A program that depends on the libraries fetches
// neither, and one that wants the command too asks for it by `traits: ["Command"]`.
let isDependency: Bool = {
    let workingDirectory = URL(fileURLWithPath: Context.environment["PWD"] ?? "/")
    var folder = workingDirectory.resolvingSymlinksInPath()
    while !FileManager.default.fileExists(atPath: folder.path + "/Package.swift") {
        guard folder.path != "/" else { return Context.packageDirectory.contains("/checkouts/") }
        folder.deleteLastPathComponent()
    }
    let ours = URL(fileURLWithPath: Context.packageDirectory).resolvingSymlinksInPath()
    return folder.path != ours.path
}()

let (crypto, cryptoExtras): (Target.Dependency, Target.Dependency) = (
    .product(name: "Crypto", package: "swift-crypto"),
    .product(name: "CryptoExtras", package: "swift-crypto")
)
let logging: Target.Dependency = .product(name: "Logging", package: "swift-log")
let collections: Target.Dependency = .product(
    name: "OrderedCollections", package: "swift-collections")

/// A module with a page about it.
func module(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .target(
        name: name, dependencies: dependencies, exclude: ["README.md"], swiftSettings: settings)
}

func tests(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .testTarget(name: name, dependencies: dependencies, swiftSettings: settings)
}

let forCommand: TargetDependencyCondition? = .when(traits: ["Command"])

// `make bench` sets this. Nobody else fetches and builds what Quire is compared with.
let isMeasured = Context.environment["QUIRE_BENCHMARKS"] == "1"

let benchmarks: [Target] =
    isMeasured
    ? [
        .executableTarget(
            name: "Benchmarks",
            dependencies: [
                "QuireDocuments", "QuireSync", "Quire", "QuireSQLite", "QuireSystem", "CSQLite",
                .product(name: "GRDB", package: "GRDB.swift"),
            ],
            path: "Benchmarks",
            exclude: ["README.md", "instructions.json"],
            swiftSettings: settings)
    ] : []

let package = Package(
    name: "quire",
    products: [
        .library(name: "Quire", targets: ["Quire"]),
        .library(name: "QuireDocuments", targets: ["QuireDocuments"]),
        .library(name: "QuireSync", targets: ["QuireSync"]),
        .library(name: "QuireMacros", targets: ["QuireMacros"]),
        .library(name: "QuireRescue", targets: ["QuireRescue"]),
        // For authors of stores, and for using a store without a coordinator.
        .library(name: "QuireStore", targets: ["QuireStore"]),
        .library(name: "QuireSQLite", targets: ["QuireSQLite"]),
        .library(name: "QuireAtomicStores", targets: ["QuireAtomicStores"]),
        .library(name: "QuireStoreConformance", targets: ["QuireStoreConformance"]),
        .executable(name: "quire", targets: ["QuireCommand"]),
    ],
    traits: [
        .trait(name: "Command", description: "The command, with the packages that only it needs."),
        .default(enabledTraits: isDependency ? [] : ["Command"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-collections", from: "1.6.0"),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/stencilproject/Stencil", from: "0.15.1"),
    ]
        + (toolchainSyntax != nil
            ? [] : [.package(url: "https://github.com/swiftlang/swift-syntax", from: "603.0.1")])
        + (isMeasured
            ? [.package(url: "https://github.com/groue/GRDB.swift", exact: "7.10.0")] : []),
    targets: [
        .systemLibrary(
            name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
        .systemLibrary(
            name: "CLibXML2", pkgConfig: "libxml-2.0", providers: [.apt(["libxml2-dev"])]),
        .systemLibrary(
            name: "CEdit", pkgConfig: "libedit", providers: [.apt(["libedit-dev"])]),
        .systemLibrary(
            name: "CArchive", pkgConfig: "libarchive", providers: [.apt(["libarchive-dev"])]),
        .systemLibrary(name: "CZLib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"])]),
        .target(name: "CLinux"),
        // The templates for new documents, as constants.
        .target(name: "CTemplates"),
        module("QuireSystem", ["CLinux", "CZLib"]),
        .target(
            name: "QuireProtection",
            dependencies: [
                "QuireSystem", "CLinux",
                crypto,
                cryptoExtras,
            ],
            exclude: ["EncryptionFormat.md", "README.md"],
            swiftSettings: settings),
        module("QuireModel", ["QuireSystem", "QuireProtection", crypto]),
        module("QuireQuery", ["QuireModel", "QuireSystem"]),
        module("QuireStore", ["QuireQuery", "QuireModel", "QuireProtection", "QuireSystem"]),
        module("QuireModelFiles", ["QuireQuery", "QuireModel", "QuireSystem", "CLibXML2"]),
        module(
            "QuireSQLite",
            [
                "QuireStore", "QuireModelFiles", "QuireQuery", "QuireModel", "QuireProtection",
                "QuireSystem", "CSQLite", logging,
            ]),
        module(
            "QuireAtomicStores",
            [
                "QuireStore", "QuireModelFiles", "QuireQuery", "QuireModel", "QuireProtection",
                "QuireSystem", "CLibXML2", logging,
            ]),
        module(
            "QuireMigration",
            [
                "QuireSQLite", "QuireAtomicStores", "QuireStore", "QuireModelFiles", "QuireQuery",
                "QuireModel", "QuireProtection", "QuireSystem", collections,
            ]),
        module(
            "QuireRescue",
            [
                "QuireMigration", "QuireSQLite", "QuireAtomicStores", "QuireStore",
                "QuireModelFiles", "QuireQuery", "QuireModel", "QuireProtection", "QuireSystem",
                crypto,
            ]),
        module(
            "Quire",
            [
                "QuireMigration", "QuireSQLite", "QuireAtomicStores", "QuireStore",
                "QuireModelFiles", "QuireQuery", "QuireModel", "QuireProtection", "QuireSystem",
                logging, collections,
            ]),
        .target(
            name: "QuireDocuments",
            dependencies: [
                "Quire", "QuireRescue", "QuireAtomicStores", "QuireSQLite", "QuireStore",
                "CArchive",
                "CLinux",
                "CTemplates",
                crypto,
                logging,
            ],
            exclude: ["README.md", "Resources"],
            swiftSettings: settings),
        module(
            "QuireSync",
            [
                "Quire", "QuireSQLite", "QuireStore", "QuireQuery", "QuireModel", "QuireProtection",
                "QuireSystem", crypto, logging,
            ]),
        .target(
            name: "QuireMacros", dependencies: ["Quire", "QuireMacrosPlugin"],
            swiftSettings: settings),
        // What the macros do; apart from the plugin, because a test that depends on a plugin has all it depends on
        // built twice.
        .target(
            name: "QuireMacroExpansion",
            dependencies: syntax(
                "SwiftSyntax", "SwiftSyntaxBuilder", "SwiftSyntaxMacros", "SwiftDiagnostics"),
            swiftSettings: settings + syntaxSettings),
        .macro(
            name: "QuireMacrosPlugin",
            dependencies: ["QuireMacroExpansion"]
                + syntax("SwiftSyntaxMacros", "SwiftCompilerPlugin"),
            swiftSettings: settings + syntaxSettings,
            linkerSettings: syntaxLinking(
                "SwiftSyntax", "SwiftSyntaxBuilder", "SwiftSyntaxMacros", "SwiftDiagnostics",
                "SwiftCompilerPluginMessageHandling")),
        .executableTarget(
            name: "QuireCommand",
            dependencies: [
                "QuireSync", "QuireDocuments", "QuireRescue", "Quire", "QuireAtomicStores",
                "QuireSQLite", "QuireStore",
                .product(
                    name: "ArgumentParser", package: "swift-argument-parser",
                    condition: forCommand),
                logging, .target(name: "CEdit", condition: forCommand),
                .product(name: "Stencil", package: "Stencil", condition: forCommand),
            ],
            exclude: ["GIT.md", "JSON.md", "README.md", "TEMPLATES.md"],
            swiftSettings: settings),
        // Makes and saves documents while it is watched, hindered and killed; for QuireDurabilityTests.
        .executableTarget(
            name: "QuireCrashWriter",
            dependencies: ["QuireDocuments", "QuireSync", "Quire"],
            path: "Tests/QuireCrashWriter",
            swiftSettings: settings),
        // The code of README.md, word for word; QuireCommandTests runs it.
        .executableTarget(
            name: "ReadmeExample",
            dependencies: ["QuireDocuments", "Quire"],
            path: "Tests/ReadmeExample",
            swiftSettings: settings),
        .executableTarget(
            name: "TypedReadmeExample",
            dependencies: ["QuireMacros", "Quire"],
            path: "Tests/TypedReadmeExample",
            swiftSettings: settings),
        // What every store must do, for those who write one of their own.
        .target(
            name: "QuireStoreConformance",
            dependencies: ["Quire", "QuireAtomicStores", "QuireSQLite", "QuireStore"],
            swiftSettings: settings),
        .target(
            name: "QuireTestSupport",
            dependencies: [
                "Quire", "QuireAtomicStores", "QuireSQLite", "QuireStore", "QuireSystem",
            ],
            swiftSettings: settings),
        // Programs as users write them, who have the products and know nothing of what is within: no upcoming features of
        // ours, and no access to declarations of the package.
        .testTarget(
            name: "ClientTests",
            dependencies: [
                "Quire", "QuireDocuments", "QuireMacros", "QuireRescue", "QuireStoreConformance",
                "QuireSync",
            ],
            exclude: testsClients ? ["Situations"] : [],
            packageAccess: false,
            swiftSettings: warningsAreErrors ? [.treatAllWarnings(as: .error)] : []),
        tests(
            "QuireProtectionTests",
            ["CLinux", "QuireProtection", "QuireSystem", "QuireTestSupport", crypto, cryptoExtras]),
        tests(
            "QuireTests",
            [
                "CLinux", "QuireModel", "QuireQuery", "QuireStore", "QuireSQLite", "QuireRescue",
                "Quire", "QuireProtection", "QuireTestSupport", logging,
            ]),
        tests("QuireConcurrencyTests", ["QuireSQLite", "Quire", "QuireTestSupport"]),
        tests(
            "QuireModelFileTests",
            ["QuireModelFiles", "QuireRescue", "Quire", "QuireSystem", "QuireTestSupport"]),
        tests(
            "QuireStoreTests",
            [
                "QuireSQLite", "QuireAtomicStores", "QuireRescue", "Quire", "QuireStoreConformance",
                "QuireTestSupport",
            ]),
        tests(
            "QuireMigrationTests",
            [
                "QuireSQLite", "QuireAtomicStores", "QuireMigration", "QuireRescue", "Quire",
                "QuireTestSupport",
            ]),
        tests(
            "QuireRescueTests",
            [
                "QuireModelFiles", "QuireSQLite", "QuireAtomicStores", "QuireMigration",
                "QuireRescue", "Quire", "QuireTestSupport",
            ]),
        tests(
            "QuireDocumentsTests",
            [
                "QuireModel", "QuireSQLite", "QuireRescue", "Quire", "QuireDocuments",
                "QuireTestSupport", "QuireCrashWriter", crypto,
            ]),
        tests(
            "QuireSyncTests",
            [
                "QuireSync", "QuireModel", "QuireSQLite", "QuireStore", "QuireProtection",
                "QuireRescue", "QuireSystem", "Quire", "QuireDocuments", "QuireTestSupport", crypto,
            ]),
        tests(
            "QuireDurabilityTests",
            [
                "Quire", "QuireDocuments", "QuireRescue", "QuireSync", "QuireTestSupport",
                "QuireCrashWriter",
            ]),
        .testTarget(
            name: "QuireCommandTests",
            dependencies: [
                "QuireProtection", "QuireSQLite",
                "QuireCommand", "QuireDocuments", "Quire", "QuireMacros", "QuireTestSupport",
                "ReadmeExample", "TypedReadmeExample",
            ],
            exclude: ["Fixtures", "Transcripts"],
            swiftSettings: settings),
        .testTarget(
            name: "QuireMacrosTests",
            dependencies: [
                "Quire", "QuireMacros", "QuireMacroExpansion", "QuireTestSupport",
                "QuireDocuments",
            ]
                + syntax(
                    "SwiftSyntax", "SwiftSyntaxMacros", "SwiftSyntaxMacroExpansion",
                    "SwiftParser", "SwiftDiagnostics", "SwiftBasicFormat"),
            swiftSettings: settings + syntaxSettings,
            linkerSettings: syntaxLinking(
                "SwiftSyntax", "SwiftSyntaxBuilder", "SwiftSyntaxMacros",
                "SwiftSyntaxMacroExpansion", "SwiftParser", "SwiftDiagnostics",
                "SwiftBasicFormat")),
    ] + benchmarks,
    swiftLanguageModes: [.v6]
)

if watchesThreads || testsClients {
    let kept = watchesThreads ? ["QuireConcurrencyTests"] : ["ClientTests", "QuireMacrosTests"]
    package.targets.removeAll { $0.type == .test && !kept.contains($0.name) }
}
