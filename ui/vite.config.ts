import { defineConfig } from "vite";

// The daemon embeds the files by name, so the names are fixed: the page's own script, and one for each room's view.
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
      // The page of a watch, and the page of `surefoot remedy serve`.
      input: { app: "index.html", cases: "cases.html" },
      output: {
        entryFileNames: "[name].js",
        // What views share is a file of its own, so that a room's file needs nothing of another's.
        codeSplitting: { groups: [{ name: "parts", test: /\/src\/(components\/|styles\/)?[\w-]+\.(tsx?|css)$|\/node_modules\//, minShareCount: 2 }] },
        chunkFileNames: ({ name, facadeModuleId }) => {
          const room = /rooms\/(\w+)\/view\.tsx$/.exec(facadeModuleId ?? "")?.[1];
          if (room === undefined && name !== "parts") throw new Error(`${name} is shared by views: name its modules under "parts"`);
          return `${room ?? name}.js`;
        },
        assetFileNames: "app.[ext]",
      },
    },
  },
});
