import CArchive

func warm() -> Int32 { archive_version_number() }
