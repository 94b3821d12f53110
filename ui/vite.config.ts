import { defineConfig } from "vite";

// The daemon embeds three files by name, so the names are fixed and nothing is split off.
// Everything is relative: the page also works behind a path of a reverse proxy.
export default defineConfig({
  base: "./",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    target: "es2022",
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    rolldownOptions: {
      output: {
        codeSplitting: false,
        entryFileNames: "app.js",
        assetFileNames: "app.[ext]",
      },
    },
  },
});
