// swift-tools-version: 6.2
import PackageDescription

// A package of its own, so that what it compares with stays out of the product.
let package = Package(
    name: "quire-benchmarks",
    dependencies: [
        .package(name: "quire", path: ".."),
        .package(url: "https://github.com/groue/GRDB.swift", exact: "7.10.0"),
    ],
    targets: [
        .systemLibrary(
            name: "SystemSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
        .executableTarget(
            name: "Benchmarks",
            dependencies: [
                "SystemSQLite",
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "Quire", package: "quire"),
                .product(name: "QuireDocuments", package: "quire"),
            ],
            swiftSettings: [
                .enableUpcomingFeature("ExistentialAny"),
                .enableUpcomingFeature("InternalImportsByDefault"),
                .enableUpcomingFeature("MemberImportVisibility"),
                .enableUpcomingFeature("InferIsolatedConformances"),
                .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
            ]),
    ],
    swiftLanguageModes: [.v6]
)
