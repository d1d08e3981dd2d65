import CLibXML2
import CLinux
import CSQLite
import Crypto
import Foundation
import Logging
func warm() -> String { String(cString: sqlite3_libversion()) + LIBXML_DOTTED_VERSION }
