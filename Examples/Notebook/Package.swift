// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "notebook",
    // In a package of yours: .package(url: "https://…/quire", from: "0.1.0").
    dependencies: [.package(name: "quire", path: "../..")],
    targets: [
        .systemLibrary(name: "CGTK", pkgConfig: "gtk4", providers: [.apt(["libgtk-4-dev"])]),
        .executableTarget(
            name: "notebook",
            dependencies: [
                "CGTK",
                .product(name: "Quire", package: "quire"),
                .product(name: "QuireDocuments", package: "quire"),
                .product(name: "QuireMacros", package: "quire"),
            ]),
    ],
    swiftLanguageModes: [.v6]
)
