document.getElementById("app").textContent = "Surefoot";
