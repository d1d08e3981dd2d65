// swift-tools-version: 6.2
import PackageDescription

// `.ci/run` sets this, so that our own warnings stop the build. Somebody who builds with a newer compiler,
// which may warn about more, is not stopped.
let warningsAreErrors = Context.environment["QUIRE_WARNINGS_AS_ERRORS"] == "1"

let settings: [SwiftSetting] =
    [
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("InternalImportsByDefault"),
        .enableUpcomingFeature("MemberImportVisibility"),
        .enableUpcomingFeature("InferIsolatedConformances"),
        .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    ] + (warningsAreErrors ? [.treatAllWarnings(as: .error)] : [])

let package = Package(
    name: "quire",
    products: [
        .library(name: "Quire", targets: ["Quire"]),
        .library(name: "QuireDocuments", targets: ["QuireDocuments"]),
        .executable(name: "quire", targets: ["QuireCommand"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-collections", from: "1.6.0"),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/stencilproject/Stencil", from: "0.15.1"),
    ],
    targets: [
        .systemLibrary(
            name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
        .systemLibrary(
            name: "CLibXML2", pkgConfig: "libxml-2.0", providers: [.apt(["libxml2-dev"])]),
        .systemLibrary(
            name: "CArchive", pkgConfig: "libarchive", providers: [.apt(["libarchive-dev"])]),
        .target(name: "CLinux"),
        .target(
            name: "Quire",
            dependencies: [
                "CSQLite", "CLibXML2", "CLinux",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "OrderedCollections", package: "swift-collections"),
            ],
            swiftSettings: settings),
        .target(
            name: "QuireDocuments",
            dependencies: [
                "Quire", "CArchive",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: settings),
        .executableTarget(
            name: "QuireCommand",
            dependencies: [
                "QuireDocuments", "Quire",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "Stencil", package: "Stencil"),
            ],
            exclude: ["JSON.md", "TEMPLATES.md"],
            swiftSettings: settings),
        // Saves a document until it is killed; for the crash test of QuireDocumentsTests.
        .executableTarget(
            name: "QuireCrashWriter",
            dependencies: ["QuireDocuments", "Quire"],
            path: "Tests/QuireCrashWriter",
            swiftSettings: settings),
        // The code of README.md, word for word; QuireCommandTests runs it.
        .executableTarget(
            name: "ReadmeExample",
            dependencies: ["QuireDocuments", "Quire"],
            path: "Tests/ReadmeExample",
            swiftSettings: settings),
        .target(name: "QuireTestSupport", dependencies: ["Quire"], swiftSettings: settings),
        .testTarget(
            name: "QuireTests", dependencies: ["Quire", "QuireTestSupport"],
            swiftSettings: settings),
        .testTarget(
            name: "QuireDocumentsTests",
            dependencies: [
                "Quire", "QuireDocuments", "QuireTestSupport", "QuireCrashWriter",
                .product(name: "Crypto", package: "swift-crypto"),
            ],
            swiftSettings: settings),
        .testTarget(
            name: "QuireCommandTests",
            dependencies: [
                "QuireCommand", "QuireDocuments", "Quire", "QuireTestSupport", "ReadmeExample",
            ],
            exclude: ["Fixtures", "Transcripts"],
            swiftSettings: settings),
    ],
    swiftLanguageModes: [.v6]
)
