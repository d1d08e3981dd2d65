extension ArchiveManifest { static let signaturePath = "META-INF/manifest.json.sig" }
