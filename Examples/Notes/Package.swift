// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "notes",
    // In a package of yours: .package(url: "https://…/quire", from: "0.1.0").
    dependencies: [.package(name: "quire", path: "../..")],
    targets: [
        .executableTarget(
            name: "notes",
            dependencies: [
                .product(name: "Quire", package: "quire"),
                .product(name: "QuireMacros", package: "quire"),
            ])
    ]
)
