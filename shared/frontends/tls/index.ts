/**
 * @module frontends/tls
 * The certificate of a listener: read from files, checked, and followed when the files change. Knows no server.
 */
export { readTlsFiles, type TlsFileReader, type TlsMaterial, type TlsPaths, watchTlsFiles } from './tls-files.ts';
