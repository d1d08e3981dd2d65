// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "document-server",
    // In a package of yours: .package(url: "https://…/quire", from: "0.1.0").
    dependencies: [
        .package(name: "quire", path: "../.."),
        .package(url: "https://github.com/swhitty/FlyingFox", exact: "0.27.1"),
    ],
    targets: [
        .executableTarget(
            name: "document-server",
            dependencies: [
                .product(name: "Quire", package: "quire"),
                .product(name: "QuireDocuments", package: "quire"),
                .product(name: "QuireMacros", package: "quire"),
                .product(name: "FlyingFox", package: "FlyingFox"),
                .product(name: "FlyingSocks", package: "FlyingFox"),
            ])
    ]
)
