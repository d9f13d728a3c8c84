// Rolls the types of each door of the package into one file, after esbuild has made dist/ and the compiler dist/types/
// (tsconfig.doors.json): to read declarations takes a tenth of what reading the sources does.
import { dirname, resolve } from 'node:path';
import { dts } from 'rollup-plugin-dts';

const DOORS = ['frontend', 'worker'];

/** Declarations name the sources that they were made of. */
const declarations = {
  name: 'declarations',
  resolveId: (source, importer) =>
    importer === undefined || !/^\..*\.ts$/.test(source)
      ? null
      : resolve(dirname(importer), source.replace(/(\.d)?\.ts$/, '.d.ts')),
};

export default DOORS.map((door) => ({
  input: `dist/types/functions/sdk/${door}.d.ts`,
  output: { file: `dist/${door}.d.ts`, format: 'es' },
  plugins: [declarations, dts()],
  // Packages whose types no door shows are looked at and left out again.
  onLog: (level, log, handle) => log.code === 'UNRESOLVED_IMPORT' || handle(level, log),
}));
