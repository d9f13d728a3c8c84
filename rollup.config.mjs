// Rolls the types of each door of the package into one file, after esbuild has made dist/.
import { dts } from 'rollup-plugin-dts';

const DOORS = ['frontend', 'worker'];

export default DOORS.map((door) => ({
  input: `functions/sdk/${door}.ts`,
  output: { file: `dist/${door}.d.ts`, format: 'es' },
  plugins: [dts()],
  // Packages whose types no door shows are looked at and left out again.
  onLog: (level, log, handle) => log.code === 'UNRESOLVED_IMPORT' || handle(level, log),
}));
